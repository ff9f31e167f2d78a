"""Databases of their own for tests, on one server."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from db.urls import url_of


@contextmanager
def fresh_database(postgres: str, template: str = "template1") -> Iterator[str]:
    """URL of a fresh database, made from a template that nobody is connected to.

    It and its replication slots are dropped at the end.
    """
    name = f"t{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres, autocommit=True) as connection:
        names = sql.Identifier(name), sql.Identifier(template)
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE {}").format(*names))
    try:
        yield url_of(postgres, name)
    finally:
        _drop(postgres, name)


def _drop(postgres: str, name: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots"
            " WHERE database = %s AND active_pid IS NOT NULL",
            [name],
        )
        for (slot,) in connection.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = %s", [name]
        ).fetchall():
            _drop_slot(connection, slot)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def _drop_slot(connection: psycopg.Connection, slot: str) -> None:
    """Drop a slot whose reader may need a moment to go."""
    for _ in range(50):
        try:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
        except psycopg.errors.ObjectInUse:
            connection.execute("SELECT pg_sleep(0.1)")
        else:
            return
