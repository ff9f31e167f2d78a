"""Databases of their own for tests, on one server."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

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
        slots = connection.execute(
            "SELECT slot_name FROM pg_replication_slots WHERE database = %s", [name]
        ).fetchall()
        for (slot,) in slots:
            drop_slot(connection, slot)
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def drop_slot(connection: psycopg.Connection[Any], name: str) -> None:
    """Drop a slot, if it is there; whoever reads it is cut off, and may need a moment to go."""
    named = "FROM pg_replication_slots WHERE slot_name = %s"
    for _ in range(500):
        connection.execute(f"SELECT pg_terminate_backend(active_pid) {named} AND active", [name])  # type: ignore[arg-type]
        try:
            connection.execute(f"SELECT pg_drop_replication_slot(slot_name) {named}", [name])  # type: ignore[arg-type]
        except psycopg.errors.ObjectInUse:
            time.sleep(0.02)
        else:
            return
    raise TimeoutError(f"somebody reads the slot {name} again and again")
