"""The calls that are under way: a task each, and the answers that came (the only place where jobs run)."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import structlog
from structlog.contextvars import bind_contextvars

from schemas.dead import Header
from schemas.records import Job
from streams.handlers.answers import Answer, Dead, Done, Handler, Retry
from streams.identifiers import canonical_uuid
from streams.job_counting import kind_label
from telemetry.distribution import SLOW, Family
from telemetry.tracing import traces

log = structlog.get_logger(__name__)

OVERTIME_S: Final = 2.0
"""A handler ends its call by its own timeout; one that doesn't is ended so much later."""


@dataclass(frozen=True, slots=True)
class Answered:
    """A call that has ended; `answer` is None when it was cut short."""

    key: bytes
    partition: int
    job_id: str
    answer: Answer | None


class Calls:
    """Runs handlers side by side; `on_answer` is called whenever one has answered."""

    def __init__(self, handlers: Mapping[str, Handler], on_answer: Callable[[], None]) -> None:
        self._handlers = handlers
        self._on_answer = on_answer
        self._tasks: dict[tuple[bytes, str], asyncio.Task[Answer]] = {}
        """By the contact, too: a copy of a job under another contact's key has the same id."""
        self.answers: deque[Answered] = deque()
        self.took = Family(SLOW)
        """By kind and by what was answered: seconds of a call."""

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, key: bytes, partition: int, job: Job, headers: list[Header]) -> None:
        """Run a job's handler beside everything else."""
        began_s = time.monotonic()
        task = asyncio.create_task(self._run(partition, job, headers), name=f"job {job.id}")
        self._tasks[key, job.id] = task

        def ended(task: asyncio.Task[Answer]) -> None:
            del self._tasks[key, job.id]
            answer = None if task.cancelled() else task.result()
            told = "cut" if answer is None else type(answer).__name__.lower()
            self.took.observe(time.monotonic() - began_s, kind_label(job.kind), told)
            self.answers.append(Answered(key, partition, job.id, answer))
            self._on_answer()

        # not at the end of the task itself: one that is cut short before its first step has no end
        task.add_done_callback(ended)

    def abort(self, key: bytes, job_id: str) -> None:
        """Cut a call short; whatever it answers is not heard."""
        task = self._tasks.get((key, job_id))
        if task is not None:
            task.cancel()

    async def settle(self, grace_s: float) -> None:
        """Wait so long for what is under way, then cut the rest short."""
        if not self._tasks:
            return
        _, late = await asyncio.wait(self._tasks.values(), timeout=grace_s)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late)
        await asyncio.sleep(0)  # lets their callbacks run

    async def _run(self, partition: int, job: Job, headers: list[Header]) -> Answer:
        # in every line of this task; the contact's key is left out: a group link's is a phone
        contact = canonical_uuid(job.contact_id)
        bind_contextvars(job_id=job.id, attempt=job.attempt, partition=partition, contact_id=contact)
        with traces().attempt(job.id, job.kind, job.attempt, job.organization_id, headers) as attempt:
            answer = await self._answer(job, headers)
            attempt.answered(type(answer).__name__.lower(), "" if isinstance(answer, Done) else answer.code)
            return answer

    async def _answer(self, job: Job, headers: list[Header]) -> Answer:
        handler = self._handlers.get(job.kind)
        if handler is None:  # taken up again by a requeue, or after an older version was put back
            return Dead(f"unknown_kind: no handler for {job.kind!r}")
        try:
            async with asyncio.timeout(handler.timeout_s + OVERTIME_S):
                return await handler.run(job, job.attempt, headers)
        except TimeoutError:
            return Retry("timeout: the handler did not end")
        except Exception as error:
            # a handler answers, it doesn't raise: the job isn't lost by a fault in one
            log.exception("handler_failed", kind=job.kind)
            return Retry(f"handler_failed: {type(error).__name__}")
