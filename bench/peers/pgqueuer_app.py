"""PgQueuer on the main path's work: a job per conversation, executed after its window's end.

A `dedupe_key` keeps a second one out while the first waits; those of a batch are enqueued in one statement,
its manager listens for notifications, as its documentation has it.

`python -m bench.peers.pgqueuer_app`, with the variables of `bench.peers.draining`; runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from pgqueuer import PgQueuer
from pgqueuer.db import PsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from psycopg_pool import AsyncConnectionPool

from bench.peers.drain import CONCURRENCY, Passed, Told, drain, make_job
from bench.peers.program import ready

BATCH_SIZE = 100
"""Jobs a look of its manager; its default of 10 is a tenth as fast on a backlog."""


async def main() -> None:
    """Until SIGTERM."""
    told = Told.read()
    pool = AsyncConnectionPool(
        told.database_url,
        kwargs={"options": told.options, "autocommit": True},
        max_size=CONCURRENCY,
        open=False,
    )
    async with pool, await told.connect() as listening, await told.connect() as enqueueing:
        queue = PgQueuer(PsycopgDriver(listening))
        queries = Queries(PsycopgDriver(enqueueing))
        await queries.install()

        @queue.entrypoint("window")
        async def window(job: Job) -> None:
            """Make the job of a window that is over."""
            assert job.payload is not None, "every job names its conversation"
            async with pool.connection() as connection:
                await make_job(told, connection, job.payload.decode())

        async def defer(passed: Sequence[Passed]) -> None:
            """A job for each conversation, unless it has one waiting."""
            now = datetime.now(UTC)
            await queries.enqueue(
                ["window"] * len(passed),
                [one.conversation_id.encode() for one in passed],
                [0] * len(passed),
                [max(one.due - now, timedelta(0)) for one in passed],
                [one.conversation_id for one in passed],
                on_conflict="skip",
            )

        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, queue.shutdown.set)
        ready()
        draining = asyncio.create_task(drain(told, defer))
        await queue.run(batch_size=BATCH_SIZE)
        draining.cancel()


if __name__ == "__main__":
    asyncio.run(main())
