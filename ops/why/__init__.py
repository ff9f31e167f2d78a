"""`rajada why`: the whole story of an event, a message, a job or a contact.

reading (Postgres), live and letters (Kafka, read-only) bring the evidence; story makes one timeline of it
(pure); show prints it.
"""
