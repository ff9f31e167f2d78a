"""Which channel sessions work: one statement for all that are asked for, cached for 5 s.

Rules: spec/jobs.md, "Lanes" (the session's status is read in bulk before a run); behaviour b156.
A job waits for a session that is known not to work, never for a database that can't be asked.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from typing import Final

import structlog

from db.pool import AsyncPool
from db.queries import load
from streams.identifiers import canonical_row_id
from streams.lookups import LookUps, Patience

log = structlog.get_logger(__name__)

ANSWER_WITHIN_S: Final = 0.5
"""How long a look may hold up the jobs that are about to start."""
CACHED_S: Final = 5.0
REST_S: Final = 1.0
MOST_CACHED: Final = 100_000


class Sessions(LookUps[str, bool]):
    """The channel sessions' status, as it was at most 5 s ago: canonical id → whether it works.

    Args:
        pool: connections in autocommit mode, to the CRM's database.
        monotonic: seconds.
    """

    def __init__(self, pool: AsyncPool, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        super().__init__(Patience(ANSWER_WITHIN_S, CACHED_S, REST_S, MOST_CACHED), monotonic)
        self._pool = pool

    async def not_working(self, ids: Collection[str]) -> set[str]:
        """Those of `ids` whose session is known not to work, written as they were given; never raises.

        What is no UUID, a session that is not in the database, and every one that can't be asked for now
        count as working.
        """
        named = {one: canonical for one in ids if (canonical := canonical_row_id(one)) is not None}
        works = {canonical: self._known(canonical) for canonical in named.values()}
        works |= await self._look_up([canonical for canonical, well in works.items() if well is None])
        return {one for one, canonical in named.items() if works[canonical] is False}

    async def _read(self, keys: list[str]) -> dict[str, bool]:
        async with self._pool.connection() as connection:
            cursor = await connection.execute(load("sessions_not_working"), {"sessions": keys})
            ill = {str(row[0]) for row in await cursor.fetchall()}
        return {session: session not in ill for session in keys}

    def _unknown(self, keys: int, why: str) -> None:
        log.warning("sessions_unknown", why=why, sessions=keys, taken_for="working")
