"""A real Kafka and a real Postgres from Python packages alone, everything of theirs in one folder.

`EmbeddedKafka` and `EmbeddedPostgres` can be used apart (tests do) or under `rajada up`.
"""
