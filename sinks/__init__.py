"""From Kafka back to Postgres: outcomes become the state of events and jobs."""
