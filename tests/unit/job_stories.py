"""What stories about jobs are told with: a worker that has begun, engines that fail, orders."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from schemas.records import Command, Job
from streams.handlers.answers import Answer, Retry
from tests.unit.job_worlds import ORGANIZATION, START_MS, Worker, World, uuid


def play(story: Coroutine[Any, Any, None]) -> None:
    """Tell a story to its end."""
    asyncio.run(story)


async def worker_in(world: World, **more: Any) -> Worker:
    """A worker that has begun."""
    worker = Worker(world, **more)
    await worker.begin()
    return worker


def failing(job: Job, attempt: int) -> Answer:
    """An engine that is never well."""
    return Retry("http_500")


def statuses(world: World, job: Job) -> list[str | None]:
    """What was told of a job, without what was sent twice."""
    by_seq = {one.job.seq: one.job_status for one in world.outcomes(job.id) if one.job}
    return [by_seq[seq] for seq in sorted(by_seq)]


def command(action: str, number: int, target: Job | None, **more: Any) -> Command:
    """An order to a job, or to all if there is no target."""
    return Command(
        id=uuid(70_000 + number), at_ms=START_MS, action=action, organization_id=ORGANIZATION,
        job_id=target.id if target else None, issued_by="test", **more,
    )  # fmt: skip
