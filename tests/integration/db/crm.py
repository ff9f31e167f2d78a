"""Rows of a CRM for the tests here: event rows, and a database as an existing CRM would have it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from uuid import UUID, uuid4

import psycopg

import db.migrate

AI = "ai_agent.dispatch_requested"
GROUP_LINK = "group_link.dispatch_requested"

Connection = psycopg.Connection[tuple[object, ...]]


def insert_event(
    connection: Connection,
    *,
    organization: UUID | str | None = None,
    contact: UUID | str | None = None,
    event_type: str = AI,
    payload: object = None,
    status: str = "pending",
) -> str:
    """Inserts one event and returns its id; without a payload it is about `contact`."""
    row = connection.execute(
        "INSERT INTO event_log (organization_id, event_type, payload, status) VALUES (%s, %s, %s, %s) "
        "RETURNING id",
        (
            organization or uuid4(),
            event_type,
            json.dumps({"contact_id": str(contact or uuid4())} if payload is None else payload),
            status,
        ),
    ).fetchone()
    assert row is not None
    return str(row[0])


def insert_many(
    connection: Connection, organization: UUID, contacts: Sequence[UUID], first: int, count: int
) -> None:
    """Inserts `count` numbered events (payload.n from `first` on), round robin over the contacts."""
    connection.execute(
        "INSERT INTO event_log (organization_id, event_type, payload) "
        "SELECT %s, %s, jsonb_build_object('contact_id', (%s::text[])[1 + n %% %s], 'n', n) "
        "FROM generate_series(%s::integer, %s) AS n ORDER BY n",
        (organization, AI, [str(c) for c in contacts], len(contacts), first, first + count - 1),
    )


def make_existing_crm(url: str, schema: str = "public") -> None:
    """The CRM's own tables and nothing of ours, made by the CRM itself in a schema of its own."""
    with psycopg.connect(url) as connection:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
        connection.execute(f"SET search_path = {schema}")
        for path in sorted((Path(db.migrate.FOLDER) / "crm").glob("*.sql")):
            connection.execute(path.read_text(encoding="utf-8"))
