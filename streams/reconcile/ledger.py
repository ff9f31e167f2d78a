"""The rows of a schedule and its firings: looked at, taken, prolonged, ended, listed.

Every method is one statement, and every time in it is the database's: nobody's clock can differ, and a
process that freezes holds no lock. Each may raise psycopg.Error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID, uuid4

from psycopg import errors

from db.pool import AsyncPool
from db.queries import load
from streams.reconcile.ticking import Kind, Look, Seen

SCHEDULE: Final = "cron-conect-whatsapp-zombie-reconciliation"


@dataclass(frozen=True, slots=True)
class Row:
    """A schedule's row: what decides, and what it has counted since it was made."""

    seen: Seen
    version: int
    fired: int
    skipped: int
    missed: int


@dataclass(frozen=True, slots=True)
class Firing:
    """A run that is ours to make."""

    id: UUID
    kind: Kind
    tick: datetime | None


@dataclass(frozen=True, slots=True)
class Past:
    """A run as the history tells it."""

    id: str
    tick: datetime | None
    kind: str
    owner: str
    began_at: datetime
    ended_at: datetime | None
    state: str
    reserved: int
    moved: int
    skipped: int
    opened: int
    resolved: int
    facts: str
    """JSON."""
    error: str | None
    took_s: float


class Ledger:
    """One schedule's rows.

    Args:
        pool: of connections in autocommit mode, opened by others.
        owner: who takes firings; unique for each start of a process.
        lease_s: how long a run is ours without a beat.
        schedule: its name.
    """

    def __init__(self, pool: AsyncPool, owner: str, lease_s: float, schedule: str = SCHEDULE) -> None:
        self._pool = pool
        self._owner = owner
        self._lease_s = lease_s
        self._schedule = schedule

    async def look(self, *, alive: bool = True) -> Row:
        """The schedule's row; the first look makes it. `alive`: a reconciler looks, and is heard of."""
        row = await self._one("connect_look", {"alive": alive})
        assert row is not None, "an insert that returns has a row"
        now, seed, version, settled, run_until, waiting, fired, skipped, missed = row
        seen = Seen(now, seed, settled, run_until, waiting)
        return Row(seen, version, fired, skipped, missed)

    async def settle(self, row: Row, look: Look) -> bool:
        """Note skipped and missed ticks; False: somebody was quicker."""
        values = {
            "version": row.version,
            "settled": look.settled,
            "skipped": look.skipped,
            "missed": look.missed,
        }
        return await self._one("connect_settle", values) is not None

    async def fire(self, row: Row | None, look: Look) -> Firing | None:
        """Take the firing that `look` asks for; None: somebody was quicker, or a run goes on.

        Without a row it is taken whatever the schedule has seen, if only no run goes on.
        """
        assert look.fire is not None, "there is nothing to fire"
        firing = Firing(uuid4(), look.fire, look.tick)
        values = {
            "version": row.version if row is not None else None,
            "firing": firing.id,
            "tick": firing.tick,
            "settled": look.settled,
            "kind": firing.kind,
            "owner": self._owner,
            "lease_s": self._lease_s,
            "skipped": look.skipped,
            "missed": look.missed,
        }
        try:
            taken = await self._one("connect_fire", values)
        except errors.UniqueViolation:
            # the schedule's row was set back: that tick has fired before
            if row is not None:
                await self.settle(row, look)
            return None
        return firing if taken is not None else None

    async def beat(self, firing: Firing, counts: Mapping[str, int]) -> bool:
        """Keep a run; False: it was lost to another, and must stop."""
        values = {"firing": firing.id, "lease_s": self._lease_s, **counts}
        return await self._one("connect_beat", values) is not None

    async def end(
        self, firing: Firing, state: str, counts: Mapping[str, int], facts: str, error: str | None = None
    ) -> bool:
        """End a run with its report; False: it was lost to another before, and nothing was written."""
        values = {"firing": firing.id, "state": state, "facts": facts, "error": error, **counts}
        return await self._one("connect_end", values) is not None

    async def ask(self, request: UUID) -> None:
        """Ask for a run, which whoever looks next will make."""
        await self._one("connect_ask", {"request": request})

    async def history(self, most: int, request: UUID | None = None) -> list[Past]:
        """The last runs, newest first; or the one that serves a request, if it has begun."""
        values = {"schedule": self._schedule, "request": request, "most": most}
        async with self._pool.connection() as connection:
            cursor = await connection.execute(load("connect_history"), values)
            return [Past(*row) for row in await cursor.fetchall()]

    async def _one(self, name: str, values: Mapping[str, object]) -> tuple[Any, ...] | None:
        async with self._pool.connection() as connection:
            cursor = await connection.execute(load(name), {"schedule": self._schedule, **values})
            return await cursor.fetchone() if cursor.description is not None else None
