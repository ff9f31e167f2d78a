"""Rows of `event_log` read from the table, in the shape in which the replication stream gives them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final
from uuid import UUID

import psycopg
from psycopg.pq import Format

from db.pgoutput import Column
from db.publisher import EventRecord, Origin, RowShape

Cursor = psycopg.Cursor[tuple[object, ...]]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MS: Final = timedelta(milliseconds=1)


@dataclass(frozen=True, slots=True)
class StoredRow:
    """One row: its record, and its place in the log's order."""

    record: EventRecord
    created_at: datetime
    id: UUID
    outcome_replay: int
    """The replay number of the outcome that the row holds; 0 = none, or the original's."""


def stored_rows(cursor: Cursor) -> list[StoredRow]:
    """The rows that a statement `SELECT` of whole rows gave; their commit time is `created_at`.

    The WAL's commit time is not in the table (spec/dispatch.md, "Nothing is lost").

    Args:
        cursor: executed on a connection with the session settings of `db.column_values.SESSION`.
    """
    result = cursor.pgresult
    if result is None or not result.ntuples:
        return []
    # The text as Postgres wrote it, as in the replication stream: one reading of it for both.
    assert all(result.fformat(at) == Format.TEXT for at in range(result.nfields))
    columns = [
        Column((result.fname(at) or b"").decode(), result.ftype(at), result.fmod(at))
        for at in range(result.nfields)
    ]
    names = [column.name for column in columns]
    created_at, id_, replay = (names.index(name) for name in ("created_at", "id", "outcome_replay"))
    shape = RowShape(columns)
    rows: list[StoredRow] = []
    for row in range(result.ntuples):
        values = [result.get_value(row, at) for at in range(result.nfields)]
        moment = datetime.fromisoformat((values[created_at] or b"").decode())
        if moment.tzinfo is None:  # a column without time zone: the session's, which is UTC
            moment = moment.replace(tzinfo=UTC)
        rows.append(
            StoredRow(
                shape.record(values, Origin(0, (moment - _EPOCH) // _MS, "r")),
                moment,
                UUID((values[id_] or b"").decode()),
                int(values[replay] or b"0"),
            )
        )
    return rows
