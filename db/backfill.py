"""Rows that a new slot's stream doesn't have, read from the table and published in the log's order.

Happens before the stream is read, so that the order per contact holds. Interrupted, it starts over:
the note of where to start is cleared only at the end (at-least-once; event ids decide).
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import psycopg
import structlog
from psycopg.pq import Format

from db.outlet import Outlet
from db.pgoutput import Column
from db.publisher import EVENT_TYPES, EventRecord, Origin, RowShape
from db.queries import load

log = structlog.get_logger(__name__)

PAGE: Final = 1_000
_BEFORE_ALL: Final = UUID(int=0)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)

Connection = psycopg.Connection[tuple[object, ...]]


def backfill(
    connection: Connection, outlet: Outlet, slot: str, since: datetime, stop: threading.Event
) -> int | None:
    """Publishes the pending rows that no worker has seen, created since `since`.

    Args:
        connection: in autocommit mode, with the session settings of `db.column_values.SESSION`.
        outlet: where to.
        slot: whose note is cleared when all are durable.
        since: created_at of the oldest row to look at.
        stop: set = give up; the note stays.

    Returns:
        How many rows were published; None when it was stopped before the end.

    Raises:
        SendFailed, psycopg.Error: nothing is cleared; start again.
    """
    published = 0
    for page in _pages(connection, since):
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


def _pages(connection: Connection, since: datetime) -> Iterator[list[EventRecord]]:
    last: tuple[datetime, UUID] = (since, _BEFORE_ALL)
    while True:
        cursor = connection.execute(
            load("relay_backfill_page"),
            {
                "event_types": list(EVENT_TYPES),
                "since": since,
                "after_created_at": last[0],
                "after_id": last[1],
                "page": PAGE,
            },
        )
        result = cursor.pgresult
        if result is None or not result.ntuples:
            return
        # The text as Postgres wrote it, as in the replication stream: one reading of it for both.
        columns = [
            Column((result.fname(at) or b"").decode(), result.ftype(at), result.fmod(at))
            for at in range(result.nfields)
        ]
        assert all(result.fformat(at) == Format.TEXT for at in range(result.nfields))
        names = [column.name for column in columns]
        created_at, id_ = names.index("created_at"), names.index("id")
        shape = RowShape(columns)
        page: list[EventRecord] = []
        for row in range(result.ntuples):
            values = [result.get_value(row, at) for at in range(result.nfields)]
            moment = datetime.fromisoformat((values[created_at] or b"").decode())
            page.append(shape.record(values, Origin(0, (moment - _EPOCH) // _MS, "r")))
            last = (moment, UUID((values[id_] or b"").decode()))
        yield page


def _nothing() -> None:
    """What an acknowledgement moves here: nothing, the pages are waited for as a whole."""
