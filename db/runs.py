"""Runs of `requeue` and `replay`: their numbers, how far each is, and that one works at a time.

A run's number is stored before its first record is sent; its progress after records are durable. So an
interrupted run is gone on with under its own number, and what it sent twice is found to be the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

import psycopg

from db.pool import conninfo_for
from db.queries import load

Connection = psycopg.Connection[tuple[object, ...]]


@dataclass(frozen=True, slots=True)
class StoredRun:
    """A row of `rajada.replays`."""

    number: int
    selection: str
    """JSON text: what was asked for."""
    progress: str
    """JSON text: how far it is."""
    started_by: str | None
    started_at: datetime
    finished_at: datetime | None


def connect(url: str, name: str) -> Connection:
    """A connection for a command of an operator, each statement its own transaction. Raises psycopg.Error.

    Args:
        url: libpq URL.
        name: of the command, for pg_stat_activity.
    """
    session = {"statement_timeout": "60s", "lock_timeout": "10s"}
    return psycopg.connect(conninfo_for(url, name, session), autocommit=True)


def try_lock(connection: Connection, name: str) -> bool:
    """Take a lock that lives as long as the connection, also when its process is killed; False: another's."""
    row = connection.execute(load("lock_try"), {"name": f"rajada.{name}"}).fetchone()
    return row is not None and row[0] is True


def begin(connection: Connection, command: str, selection: str, progress: str, started_by: str | None) -> int:
    """Begin a run; returns its number. `selection` and `progress` are JSON text."""
    values = {
        "command": command,
        "selection": selection,
        "progress": progress,
        "started_by": started_by,
    }
    while True:
        try:
            row = connection.execute(load("run_begin"), values).fetchone()
        except psycopg.errors.UniqueViolation:
            continue  # another run began in the same millisecond
        assert row is not None, "an insert that returns its number has a row"
        return int(str(row[0]))


def unfinished(connection: Connection, command: str) -> list[StoredRun]:
    """The runs of a command that did not come to their end, oldest first."""
    return _runs(connection, command, None)


def find(connection: Connection, command: str, number: int) -> StoredRun | None:
    """One run, finished or not."""
    return next(iter(_runs(connection, command, number)), None)


def _runs(connection: Connection, command: str, number: int | None) -> list[StoredRun]:
    rows = connection.execute(load("runs"), {"command": command, "replay": number}).fetchall()
    return [StoredRun(*row) for row in rows]  # type: ignore[arg-type]  # the file says which columns


def note(connection: Connection, number: int, progress: str, *, finished: bool = False) -> None:
    """Write how far a run is."""
    values = {"replay": number, "progress": progress, "finished": finished}
    connection.execute(load("run_note"), values)
