"""Write-ahead log that Postgres wrote meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import psycopg


@dataclass(slots=True)
class Wal:
    """Bytes, known when the block has ended."""

    size: int = 0


@contextmanager
def written(admin_url: str) -> Iterator[Wal]:
    """Counts the whole server's log while the block runs."""
    wal = Wal()
    before = _place(admin_url)
    yield wal
    wal.size = _place(admin_url) - before


def _place(url: str) -> int:
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute("SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')").fetchone()
    assert row is not None
    return int(row[0])
