"""Postgres: migrations, named statements, pools, and the relay that publishes the event log."""
