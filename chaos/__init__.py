"""Runs that hurt the system on purpose, and audits of what came of it."""
