"""Heads of jobs that ended a day ago go, of those before that little is kept (spec/jobs.md).

A contact without any leaves a tombstone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from streams.heads import KEPT_MS, WHOLE_MS
from streams.job_book import JobBook
from streams.job_endings import shrink
from streams.transitions import forget

log = structlog.get_logger(__name__)

EVERY_S: Final = 300.0
SLICE: Final = 100
"""Contacts looked at without letting others run: each may have a thousand heads to be looked at."""


async def forget_ended(book: JobBook, wall_ms: Callable[[], int], every_s: float = EVERY_S) -> None:
    """Look through the owned jobs for ever, a slice at a time."""
    while True:
        await asyncio.sleep(every_s)
        gone = 0
        for partition in sorted(book.owned):
            keys = book.keys(partition)
            for start in range(0, len(keys), SLICE):
                if partition in book.owned:
                    gone += forget_slice(book, partition, keys[start : start + SLICE], wall_ms())
                await asyncio.sleep(0)
        if gone:
            log.info("job_heads_forgotten", heads=gone)


def forget_slice(book: JobBook, partition: int, keys: list[bytes], now_ms: int) -> int:
    """Forget what is over of these contacts, in one flush; returns how many heads."""
    gone, changed = 0, False
    for key in keys:
        jobs = book.look(key, partition)
        commands = len(jobs.commands)
        heads = forget(jobs, now_ms - KEPT_MS)
        if shrink(jobs, now_ms - WHOLE_MS) or heads or len(jobs.commands) != commands:
            gone += heads
            changed = True
            book.shrunk(key, partition, jobs)
    if changed:
        book.flush()
    return gone
