"""Old records without a head: their rows are looked at before they run (spec/jobs.md, "Job heads")."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import psycopg
import structlog
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from db.queries import load
from streams.heads import State
from streams.identifiers import canonical_row_id
from streams.job_book import JobBook, head_of
from streams.transitions import verify

log = structlog.get_logger(__name__)

LOOK_S: Final = 0.2
LONGEST_BACKOFF_S: Final = 30.0
AT_ONCE: Final = 500


class RowsAway(Exception):
    """The rows can't be read now: the jobs wait."""


class PostgresJobRows:
    """Reads how jobs ended from their rows."""

    def __init__(self, pool: AsyncConnectionPool) -> None:
        self._pool = pool

    async def ended(self, jobs: Mapping[str, tuple[int, int]]) -> dict[str, State]:
        """Of jobs (id → replay, seq) those whose row has ended at that or later; raises RowsAway."""
        values = {
            "ids": list(jobs),
            "replays": [replay for replay, _ in jobs.values()],
            "seqs": [seq for _, seq in jobs.values()],
        }
        try:
            async with self._pool.connection(timeout=2) as connection:
                cursor = await connection.execute(load("jobs_ended"), values)
                rows = await cursor.fetchall()
                with contextlib.suppress(psycopg.errors.UndefinedTable):  # a CRM without group links
                    async with connection.transaction():
                        cursor = await connection.execute(load("group_links_ended"), values)
                        rows += await cursor.fetchall()
                return {str(job_id): State(status) for job_id, status in rows}
        except (psycopg.Error, PoolTimeout, OSError) as error:
            raise RowsAway(type(error).__name__) from error


async def verify_old(
    book: JobBook,
    ended: Callable[[Mapping[str, tuple[int, int]]], Awaitable[dict[str, State]]],
    wall_ms: Callable[[], int],
    wake: Callable[[], None],
) -> None:
    """Verify for ever what the book has to be verified; while the database is away, jobs wait."""
    backoff_s = LOOK_S
    while True:
        await asyncio.sleep(backoff_s)
        places = dict(list(book.unverified.items())[:AT_ONCE])
        asked: dict[str, tuple[int, int]] = {}
        for (key, job_id), partition in places.items():
            head = head_of(book.jobs(key, partition), job_id, State.UNVERIFIED)
            if head is None:
                book.unverified.pop((key, job_id), None)
            elif (row_id := canonical_row_id(job_id)) is not None:  # else it has no row that could have ended
                asked[row_id] = head.replay, head.seq
        if not book.unverified:
            continue
        try:
            found = await ended(asked) if asked else {}
        except RowsAway as error:
            backoff_s = min(max(backoff_s * 2, 1.0), LONGEST_BACKOFF_S)
            log.error("old_jobs_wait", jobs=len(asked), error=str(error), next_try_s=backoff_s)
            continue
        backoff_s = LOOK_S
        for (key, job_id), partition in places.items():
            if book.unverified.pop((key, job_id), None) is None:
                continue  # the partitions went meanwhile
            jobs = book.jobs(key, partition)
            if verify(jobs, job_id, found.get(canonical_row_id(job_id) or ""), wall_ms()):
                book.changed(key, partition, jobs)
        wake()
