"""Debezium on Kafka Connect as the publisher of the event log: its connectors and how they are kept right."""
