"""How far the sink has written: the worker asks Postgres every few seconds (spec/dispatch.md, step 2).

An event stays in its contact's recent ids until its outcome is in Postgres, where stop 0 finds it.
Unreadable means unknown, and unknown keeps everything.
"""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg
import structlog
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from db.queries import load

log = structlog.get_logger(__name__)

EVERY_S: Final = 3.0


class SinkProgress:
    """The sink's next offset by partition of the outcomes topic."""

    def __init__(self, pool: AsyncConnectionPool, topic: str) -> None:
        self._pool = pool
        self._topic = topic
        self._below: dict[int, int] = {}

    def written_below(self, partition: int) -> int:
        """Outcomes of this partition below the answer are in Postgres; 0 = nothing is known."""
        return self._below.get(partition, 0)

    async def refresh(self) -> None:
        """Read once."""
        try:
            async with self._pool.connection(timeout=2) as connection:
                cursor = await connection.execute(load("sink_progress"), {"topic": self._topic})
                self._below = {int(partition): int(offset) for partition, offset in await cursor.fetchall()}
        except (psycopg.Error, PoolTimeout, OSError) as error:
            log.debug("sink_progress_unreadable", error=type(error).__name__)

    async def run(self) -> None:
        """Read every few seconds, for ever."""
        while True:
            await self.refresh()
            await asyncio.sleep(EVERY_S)
