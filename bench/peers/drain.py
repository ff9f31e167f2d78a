"""What the peers in Postgres share: draining the event log, and making a job of a window, in plain SQL.

The queue's part is the waiting: a task per conversation that is due when its window ends. A drain asks the
log for events that it has not passed on yet and defers that task for each conversation; whoever runs it takes
the window's events out of the log and writes the job, in one transaction.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import psycopg
from psycopg.rows import TupleRow

from streams.events import EVENT_TYPE
from streams.identifiers import job_id

BATCH = 1_000
IDLE_S = 0.1
BEGINNING = datetime.min.replace(tzinfo=UTC)
CONCURRENCY = 10
"""Tasks at a time: they wait for Postgres most of the time."""

TABLES = """
CREATE TABLE drained (event_id uuid PRIMARY KEY);
CREATE TABLE jobs (
    id uuid PRIMARY KEY, organization_id uuid NOT NULL, contact_id uuid NOT NULL,
    conversation_id uuid NOT NULL,
    payload jsonb NOT NULL, events uuid[] NOT NULL, created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE taken (event_id uuid PRIMARY KEY, job_id uuid NOT NULL REFERENCES jobs (id));
"""
_NEW = """
SELECT e.id::text, e.payload->>'conversation_id', e.created_at FROM event_log e
WHERE e.event_type = %s AND e.status = 'pending' AND e.organization_id = %s AND e.created_at >= %s
  AND NOT EXISTS (SELECT FROM drained d WHERE d.event_id = e.id)
ORDER BY e.created_at LIMIT %s
"""
_DRAINED = "INSERT INTO drained SELECT unnest(%s::uuid[]) ON CONFLICT DO NOTHING"
_ALONE = "SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))"
_OPEN = """
SELECT e.id::text, e.entity_id::text, e.payload->>'contact_id', e.payload->>'channel_session_id', e.created_at
FROM messages m
JOIN event_log e ON e.organization_id = m.organization_id AND e.entity_kind = 'message' AND e.entity_id = m.id
WHERE m.organization_id = %s AND m.conversation_id = %s AND e.event_type = %s
  AND NOT EXISTS (SELECT FROM taken t WHERE t.event_id = e.id)
ORDER BY e.created_at, e.ctid
"""
_JOB = "INSERT INTO jobs VALUES (%s, %s, %s, %s, %s, %s)"
_TAKEN = "INSERT INTO taken SELECT unnest(%s::uuid[]), %s"

Connection = psycopg.AsyncConnection[TupleRow]


@dataclass(frozen=True, slots=True)
class Passed:
    """A conversation with events that the log has and the queue not yet."""

    conversation_id: str
    due: datetime
    """When a window is over that begins with the first of them."""


@dataclass(frozen=True, slots=True)
class Told:
    """What the process is told in its variables."""

    database_url: str
    schema: str
    organization_id: str
    window: timedelta

    @classmethod
    def read(cls) -> Told:
        """From the environment; KeyError when a variable is missing."""
        return cls(
            os.environ["PEER_DATABASE"],
            os.environ["PEER_SCHEMA"],
            os.environ["PEER_ORGANIZATION"],
            timedelta(milliseconds=int(os.environ["PEER_WINDOW_MS"])),
        )

    @property
    def options(self) -> str:
        """Of a connection: whatever is made stands in the peer's own schema."""
        return f"-c search_path={self.schema},public"

    async def connect(self) -> Connection:
        """A connection in the peer's schema, each statement its own transaction."""
        return await psycopg.AsyncConnection.connect(self.database_url, options=self.options, autocommit=True)


async def drain(told: Told, defer: Callable[[Sequence[Passed]], Awaitable[None]]) -> None:
    """Pass on what the log has, a batch at a time, for ever; an event is marked once the queue has it.

    Each batch begins at the time that the one before reached, so that what was passed on is not walked
    through again; the marks tell apart what has that very time. One writer commits the workload in the order
    of its times: with several, the drain would have to stay as far behind as their transactions are long.
    """
    reached = BEGINNING
    async with await told.connect() as connection:
        while True:
            rows = await (
                await connection.execute(_NEW, [EVENT_TYPE, told.organization_id, reached, BATCH])
            ).fetchall()
            if not rows:
                await asyncio.sleep(IDLE_S)
                continue
            await defer(opened(rows, told.window))
            await connection.execute(_DRAINED, [[row[0] for row in rows]])
            reached = rows[-1][2]


def opened(rows: Sequence[TupleRow], window: timedelta) -> list[Passed]:
    """Each conversation of a batch (event, conversation, time; oldest first) once, by its first event."""
    first: dict[str, datetime] = {}
    for _, conversation_id, at in rows:
        first.setdefault(conversation_id, at)
    return [Passed(conversation_id, at + window) for conversation_id, at in first.items()]


async def make_job(told: Told, connection: Any, conversation_id: str) -> None:
    """Write the job of the oldest events of a conversation that have none, those of one window.

    `connection`: psycopg's, asynchronous, in the peer's schema. Does nothing when there are no such events.
    """
    async with connection.transaction():
        await connection.execute(_ALONE, [conversation_id])
        asked = [told.organization_id, conversation_id, EVENT_TYPE]
        found = await (await connection.execute(_OPEN, asked)).fetchall()
        if not found:
            return
        members = [row for row in found if row[4] <= found[0][4] + told.window]
        ids = [row[0] for row in members]
        newest = members[-1]
        payload = {
            "conversation_id": conversation_id,
            "contact_id": newest[2],
            "channel_session_id": newest[3],
            "inbound_message_id": newest[1],
            "crm_event_id": ids[0],
            "event_ids": ids,
        }
        job = job_id(told.organization_id, ids[0])
        written = [job, told.organization_id, newest[2], conversation_id]
        await connection.execute(_JOB, [*written, msgspec.json.encode(payload).decode(), ids])
        await connection.execute(_TAKEN, [ids, job])
