"""The sweep's side of Postgres: what waits to be published again, page by page, and what was noted of it.

The statements say which events are meant (`sweep_claim.sql`); `sweep_waiting.sql` counts the same ones.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self
from uuid import UUID

import psycopg

from db.column_values import SESSION
from db.leases import Connection, Lease, new_holder
from db.pool import conninfo_for
from db.queries import load
from db.table_rows import StoredRow, stored_rows

LEASE: Final = "sweep"
LEASE_S: Final = 120.0
"""Prolonged with every page; above the longest that one page may take."""

_SESSION: Final = {
    **SESSION,
    "statement_timeout": "30s",
    "lock_timeout": "5s",
    # The conditions are on few of very many rows, which the planner misjudges at times.
    "enable_seqscan": "off",
}


@dataclass(frozen=True, slots=True)
class Conditions:
    """Which events a sweep takes."""

    event_types: Sequence[str]
    consumer: str
    """Whose `processing` rows count as left behind."""
    reap_ms: int
    """Pending, or processing, for at least so long."""
    since: datetime | None = None
    """Created since then; None: since the installation."""
    at_once: bool = False
    """Also those whose backoff is not over."""

    def values(self) -> dict[str, object]:
        """As parameters of the statements."""
        return {
            "event_types": list(self.event_types),
            "consumer": self.consumer,
            "reap_ms": self.reap_ms,
            "since": self.since,
            "at_once": self.at_once,
        }


@dataclass(frozen=True, slots=True)
class Waiting:
    """Events of one organization and type that would be published again, by age."""

    organization_id: str
    event_type: str
    hour: int
    day: int
    week: int
    older: int
    oldest: datetime
    swept: int
    """Of them, those that were published again before."""

    @property
    def events(self) -> int:
        """All of them."""
        return self.hour + self.day + self.week + self.older


class Claims:
    """One connection on which a sweep works; use it as a context. Every method may raise psycopg.Error.

    Args:
        url: libpq URL.
        holder: in whose name the lease is held, from `new_holder`. The same in every round of a process, so
            that it goes on where a broken connection left its lease.
    """

    def __init__(self, url: str, holder: str | None = None) -> None:
        self._connection: Connection = psycopg.connect(conninfo_for(url, "sweep", _SESSION), autocommit=True)
        self._holder = holder or new_holder()
        self._lease = Lease(self._connection, LEASE, self._holder, LEASE_S)
        self._round: dict[str, object] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def waiting(self, conditions: Conditions) -> list[Waiting]:
        """What a sweep would publish again, most events first."""
        rows = self._connection.execute(load("sweep_waiting"), conditions.values()).fetchall()
        return [Waiting(str(row[0]), *row[1:]) for row in rows]  # type: ignore[arg-type]  # the file says which

    def written(self, topic_id: str) -> dict[int, int]:
        """The sink's next offset in each partition of a topic that it has ever taken."""
        rows = self._connection.execute(load("sweep_sink"), {"topic_id": topic_id}).fetchall()
        return {int(str(partition)): int(str(offset)) for partition, offset in rows}

    def begin(self, conditions: Conditions, backoff_s: tuple[int, int], page: int, *, by_hand: bool) -> bool:
        """Take the lease for one round; False while another process sweeps or the last round rests.

        Args:
            conditions: which events.
            backoff_s: the first one and the longest, seconds.
            page: events of a page.
            by_hand: begin also while the last round rests.
        """
        begun_at = self._lease.take(at_once=by_hand)
        if begun_at is None:
            return False
        self._round = {
            **conditions.values(),
            "begun_at": begun_at,
            "first_s": backoff_s[0],
            "longest_s": backoff_s[1],
            "page": page,
            "lease": LEASE,
            "holder": self._holder,
            "after_created_at": "-infinity",
            "after_id": UUID(int=0),
        }
        return True

    def next_page(self) -> list[StoredRow]:
        """Note the next events as published again and give them; empty: none is left, or no lease."""
        if self._lease.take() is None:
            return []
        rows = stored_rows(self._connection.execute(load("sweep_claim"), self._round))
        if rows:
            self._round |= {"after_created_at": rows[-1].created_at, "after_id": rows[-1].id}
        return rows

    def give_back(self, events: Collection[UUID]) -> None:
        """These could not be published: their backoff does not begin."""
        self._connection.execute(load("sweep_unclaim"), {"events": sorted(events)})

    def end(self, *, rest_s: float, kept_days: int) -> None:
        """Give the lease back; others begin a round after `rest_s`. Forgets what was swept long ago."""
        if self._connection.closed:
            return
        self._connection.execute(load("sweep_forget"), {"keep_days": kept_days})
        self._lease.release(rest_s)
