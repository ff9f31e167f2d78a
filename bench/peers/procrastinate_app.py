"""Procrastinate on the main path's work: a task per conversation, scheduled to its window's end.

A `queueing_lock` keeps a second one out while the first waits, as its documentation has it for debouncing;
its worker listens for notifications and asks every few seconds for what has come due, both as by default.

`python -m bench.peers.procrastinate_app`, with the variables of `bench.peers.draining`; runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from procrastinate import App, PsycopgConnector
from procrastinate.exceptions import AlreadyEnqueued
from psycopg_pool import AsyncConnectionPool

from bench.peers.drain import CONCURRENCY, Passed, Told, drain, make_job
from bench.peers.program import ready

told = Told.read()
app = App(
    connector=PsycopgConnector(
        conninfo=told.database_url, kwargs={"options": told.options}, max_size=CONCURRENCY
    )
)
pool = AsyncConnectionPool(
    told.database_url,
    kwargs={"options": told.options, "autocommit": True},
    max_size=CONCURRENCY,
    open=False,
)


@app.task(name="window")
async def window(conversation_id: str) -> None:
    """Make the job of a window that is over."""
    async with pool.connection() as connection:
        await make_job(told, connection, conversation_id)


async def defer(passed: Sequence[Passed]) -> None:
    """A task for each conversation, unless it has one waiting."""
    for one in passed:
        with contextlib.suppress(AlreadyEnqueued):
            await window.configure(
                queueing_lock=one.conversation_id, lock=one.conversation_id, schedule_at=one.due
            ).defer_async(conversation_id=one.conversation_id)


async def main() -> None:
    """Until SIGTERM, which its worker heeds."""
    async with app.open_async(), pool:
        await app.schema_manager.apply_schema_async()
        ready()
        draining = asyncio.create_task(drain(told, defer))
        await app.run_worker_async(concurrency=CONCURRENCY)
        draining.cancel()


if __name__ == "__main__":
    # the application of the importable module, as its documentation wants it, not of this one
    from bench.peers import procrastinate_app

    asyncio.run(procrastinate_app.main())
