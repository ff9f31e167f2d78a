"""Jobs in the changelog that a newer version wrote: they wait for a worker that knows them, for an hour.

During a rolling upgrade partitions also move from new workers to old ones. What such a one can't read is no
record that could be tried again: its head stays as it is, the contact's other jobs stay behind it, orders to
the contact come back every minute. All other contacts go on. Whoever has had the partition for an hour, since
nobody newer came, buries the job with its bytes (docs/schemas.md).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, cast

import structlog

from schemas.dead import Cause, Header, resting_place
from schemas.delayed import EVERY_MS, FOR_MS
from schemas.topic_names import JOBS, OUTCOMES
from settings import Language
from streams.burial import bury
from streams.heads import Head, Origin
from streams.job_book import JobBook
from streams.ports import Outbox
from streams.transport import Record

log = structlog.get_logger(__name__)

NEWER: Final = "the contact has a job that a newer version wrote; upgrade this worker"
"""Why nothing is done for a contact."""


@dataclass(frozen=True, slots=True)
class _AsItCame:
    """The record that brought a job, as far as its head has kept it."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: Sequence[Header]
    key: bytes
    value: bytes


async def bury_unknown(book: JobBook, outbox: Outbox, wall_ms: Callable[[], int], language: Language) -> None:
    """Look every minute, for ever, whether an hour is over."""
    while True:
        await asyncio.sleep(EVERY_MS / 1000)
        await bury_what_is_over(book, outbox, wall_ms, language)


async def bury_what_is_over(
    book: JobBook, outbox: Outbox, wall_ms: Callable[[], int], language: Language
) -> None:
    """Bury the unknown jobs of contacts that were ours for an hour; then these go on."""
    for key, unknown in list(book.unknown.items()):
        if wall_ms() - unknown.since_ms < FOR_MS:
            continue
        heads = book.jobs(key, unknown.partition).heads
        strange = {job_id: head for job_id, head in heads.items() if not head.is_known}
        for job_id, head in strange.items():
            record = _came_with(head, key, unknown.partition)
            cause = Cause("execute", "unknown_schema", NEWER, job_id=job_id)
            # a header may be null, which the transport's type doesn't say
            burial = bury(cast("Record", record), cause, None, "", wall_ms(), language)
            # the letter is durable before the head goes: twice is harmless
            await outbox.send(resting_place(burial.letter[3] or ()), [burial.letter])
            await outbox.send(OUTCOMES, [burial.outcome])
            log.warning("dead_letter", reason="unknown_schema", job_id=job_id, partition=unknown.partition)
        if book.unknown.get(key) is not unknown:  # the partition went meanwhile
            continue
        del book.unknown[key]
        jobs = book.jobs(key, unknown.partition)
        for job_id in strange:
            jobs.heads.pop(job_id, None)
        book.changed(key, unknown.partition, jobs)
        book.flush()


def _came_with(head: Head, key: bytes, partition: int) -> _AsItCame:
    origin = head.origin or Origin(JOBS, partition, -1, 0)
    return _AsItCame(
        origin.topic, origin.partition, origin.offset, origin.timestamp, origin.headers, key, head.job
    )
