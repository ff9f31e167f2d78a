"""Leases in the database's time: work that one process at a time may do.

A holder that dies or freezes needs nobody: its lease ends. One that wakes up late finds that its lease has
ended; statements that must not run then ask for the lease themselves (`sweep_claim.sql`).
"""

from __future__ import annotations

import os
import secrets
import socket
from datetime import datetime
from typing import cast

import psycopg

from db.queries import load

Connection = psycopg.Connection[tuple[object, ...]]


def new_holder() -> str:
    """A name for one holder, unique for each start of a process: host, process id, a few random digits."""
    return f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"


class Lease:
    """One holder's view of a lease. For one connection in autocommit mode.

    Args:
        connection: to the database.
        name: of the work.
        holder: from `new_holder`.
        seconds: how long it is held unless it is taken again.
    """

    def __init__(self, connection: Connection, name: str, holder: str, seconds: float) -> None:
        self._connection = connection
        self._values = {"name": name, "holder": holder, "seconds": seconds}

    def take(self, *, at_once: bool = False) -> datetime | None:
        """Take or prolong it; the database's now, or None while it is another's.

        `at_once`: also during the rest that its last holder left.
        """
        row = self._connection.execute(load("lease_take"), {**self._values, "at_once": at_once}).fetchone()
        return cast("datetime", row[0]) if row is not None else None

    def release(self, rest_s: float = 0.0) -> None:
        """Give it back; others may take it after `rest_s` seconds, we ourselves before."""
        self._connection.execute(load("lease_release"), {**self._values, "rest_s": rest_s})
