"""What a round uses: CPU and memory of the processes measured, CPU of the whole machine, Postgres' log.

Every line of a table is read by it in the same way, ours and the others: CPU and memory are those of the
processes that were started for the work. What Kafka and Postgres do for it shows in the machine's CPU and in
the log; who leaves more to a server does not look cheaper there.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol, Self

import psycopg

from bench.processes import Usage, busy_s

_WRITTEN = "SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint"


class Metered(Protocol):
    """A process that tells what it has used."""

    def usage(self) -> Usage:
        """Since it was started."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What the meter stands at, or between two of its readings what was used."""

    cpu_s: float
    """CPU seconds of the processes."""
    machine_s: float
    """CPU seconds of the whole machine: the processes, the servers, and whoever else runs here."""
    wal_bytes: int
    """Bytes of the whole Postgres' write-ahead log."""
    peak_mib: float
    """Most resident memory, that of the processes added."""

    def since(self, before: Reading) -> Reading:
        """What was used from that reading to this one; the peak is of the processes' whole life."""
        return Reading(
            self.cpu_s - before.cpu_s,
            self.machine_s - before.machine_s,
            self.wal_bytes - before.wal_bytes,
            self.peak_mib,
        )


class Meter:
    """Reads them; keeps one connection, so that reading costs nothing that is worth counting."""

    def __init__(self, admin_url: str, processes: Iterable[Metered]) -> None:
        self._processes = tuple(processes)
        self._connection = psycopg.connect(admin_url, autocommit=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def read(self) -> Reading:
        """Where everything stands now. Raises FileNotFoundError when a process is gone."""
        row = self._connection.execute(_WRITTEN).fetchone()
        assert row is not None
        used = [one.usage() for one in self._processes]
        return Reading(
            cpu_s=sum(one.cpu_s for one in used),
            machine_s=busy_s(),
            wal_bytes=int(row[0]),
            peak_mib=sum(one.peak_mib for one in used),
        )
