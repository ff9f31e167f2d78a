"""Rows that a new slot's stream doesn't have, read from the table and published in the log's order.

Happens before the stream is read, so that the order per contact holds. Interrupted, it starts over:
the note of where to start is cleared only at the end (at-least-once; event ids decide).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

import psycopg
import structlog

from db.outlet import Outlet
from db.publisher import EVENT_TYPES, EventRecord
from db.queries import load
from db.table_rows import stored_rows

log = structlog.get_logger(__name__)

PAGE: Final = 1_000
_BEFORE_ALL: Final = UUID(int=0)

Connection = psycopg.Connection[tuple[object, ...]]


def backfill(
    connection: Connection,
    outlet: Outlet,
    slot: str,
    since: datetime,
    stop: threading.Event,
    event_types: Sequence[str] = EVENT_TYPES,
) -> int | None:
    """Publishes the pending rows that no worker has seen, created since `since`.

    Args:
        connection: in autocommit mode, with the session settings of `db.column_values.SESSION`.
        outlet: where to.
        slot: whose note is cleared when all are durable.
        since: created_at of the oldest row to look at.
        stop: set = give up; the note stays.
        event_types: which events the slot's reader publishes.

    Returns:
        How many rows were published; None when it was stopped before the end.

    Raises:
        SendFailed, psycopg.Error: nothing is cleared; start again.
    """
    published = 0
    for page in _pages(connection, since, event_types):
        for record in page:
            while not outlet.send(record, _nothing):
                outlet.pump(0.1)
        # One page in flight at most: a stop or a failure repeats little.
        while len(outlet):
            outlet.pump(0.1)
            if stop.is_set():
                return None
        published += len(page)
    connection.execute(load("relay_backfilled"), {"slot": slot})
    if published:
        log.warning("backfilled", rows=published, since=since.isoformat())
    return published


def _pages(
    connection: Connection, since: datetime, event_types: Sequence[str]
) -> Iterator[list[EventRecord]]:
    last: tuple[datetime, UUID] = (since, _BEFORE_ALL)
    while True:
        cursor = connection.execute(
            load("relay_backfill_page"),
            {
                "event_types": list(event_types),
                "since": since,
                "after_created_at": last[0],
                "after_id": last[1],
                "page": PAGE,
            },
        )
        rows = stored_rows(cursor)
        if not rows:
            return
        last = (rows[-1].created_at, rows[-1].id)
        yield [row.record for row in rows]


def _nothing() -> None:
    """What an acknowledgement moves here: nothing, the pages are waited for as a whole."""
