"""`rajada dlq`: look at dead letters, requeue, drop, export and import them (spec/jobs.md, "Dead letters").

selection and groups are pure; desk brings Kafka and Postgres together; requeue, drop, export and carriage
(import) do the work; show prints it.
"""
