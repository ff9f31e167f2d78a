"""Which channel sessions work: one statement for all that are asked for, cached for 5 s.

Rules: spec/jobs.md, "Lanes" (the session's status is read in bulk before a run); behaviour b156.
A job waits for a session that is known not to work, never for a database that can't be asked.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Final

import psycopg
import structlog

from db.pool import AsyncPool
from db.queries import load
from streams.identifiers import canonical_row_id

log = structlog.get_logger(__name__)

ANSWER_WITHIN_S: Final = 1.0
CACHED_S: Final = 5.0
REST_S: Final = 1.0
"""After a look-up that failed nobody is asked for so long: else every run would wait for its answer."""
MOST_CACHED: Final = 100_000


class Sessions:
    """The channel sessions' status, as it was at most 5 s ago.

    Args:
        pool: connections in autocommit mode, to the CRM's database.
        monotonic: seconds.
    """

    def __init__(self, pool: AsyncPool, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._monotonic = monotonic
        self._cache: OrderedDict[str, tuple[float, bool]] = OrderedDict()
        """Canonical id → until when it holds, whether it works; what was asked for longest ago first."""
        self._rests_until = 0.0
        self._late: asyncio.Task[dict[str, bool]] | None = None
        """A look-up that did not answer in time and is still under way: no other one is begun."""

    async def not_working(self, ids: Collection[str]) -> set[str]:
        """Those of `ids` whose session is known not to work, written as they were given; never raises.

        What is no UUID, a session that is not in the database, and every one that can't be asked for now
        count as working.
        """
        named = {one: canonical for one in ids if (canonical := canonical_row_id(one)) is not None}
        now = self._monotonic()
        known = {canonical: self._known(canonical, now) for canonical in named.values()}
        missing = [canonical for canonical, works in known.items() if works is None]
        if missing and now >= self._rests_until and not self._is_late():
            known |= await self._ask(missing)
        return {one for one, canonical in named.items() if known[canonical] is False}

    def _known(self, session: str, now: float) -> bool | None:
        """Whether a session works; None when that is not known, or no longer."""
        held = self._cache.get(session)
        return held[1] if held is not None and held[0] > now else None

    def _is_late(self) -> bool:
        return self._late is not None and not self._late.done()

    async def _ask(self, sessions: list[str]) -> dict[str, bool]:
        """Which work, from Postgres; nothing, and a warning, when that fails or takes too long."""
        task = asyncio.ensure_future(self._fill(sessions))
        try:
            done, _ = await asyncio.wait({task}, timeout=ANSWER_WITHIN_S)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            return task.result()
        # Not cancelled, since a silent server would have to confirm that; its answer still helps later.
        self._late = task
        self._rest(len(sessions), "no answer in time")
        return {}

    async def _fill(self, sessions: list[str]) -> dict[str, bool]:
        try:
            async with self._pool.connection() as connection:
                cursor = await connection.execute(load("sessions_not_working"), {"sessions": sessions})
                ill = {str(row[0]) for row in await cursor.fetchall()}
        except (psycopg.Error, OSError) as error:
            code = error.sqlstate if isinstance(error, psycopg.Error) else None
            self._rest(len(sessions), f"sqlstate_{code}" if code else type(error).__name__)
            return {}
        until = self._monotonic() + CACHED_S
        works = {session: session not in ill for session in sessions}
        for session, well in works.items():
            self._cache[session] = until, well
            self._cache.move_to_end(session)
        while len(self._cache) > MOST_CACHED:
            self._cache.popitem(last=False)
        return works

    def _rest(self, sessions: int, why: str) -> None:
        self._rests_until = self._monotonic() + REST_S
        log.warning("sessions_unknown", why=why, sessions=sessions, taken_for="working")
