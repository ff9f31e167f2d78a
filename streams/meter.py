"""Tells what the worker has done: a file every few seconds, a log line every minute if anything changed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import structlog

import status
from streams.counting import Counts, Tally, told

log = structlog.get_logger(__name__)

EVERY_S: Final = 5.0
LOG_EVERY: Final = 12
"""In files written: once a minute."""


async def tell(name: str, counts: Counts, tally: Tally, sweep: Callable[[], Mapping[str, int | str]]) -> None:
    """Tell for ever, as the process `name`; `sweep` gives the numbers of the sweep."""
    last: dict[str, int | str] = {**told(counts, tally), **sweep()}
    status.counters(name, last)
    while True:
        for _ in range(LOG_EVERY):
            await asyncio.sleep(EVERY_S)
            now: dict[str, int | str] = {**told(counts, tally), **sweep()}
            status.counters(name, now)
        if now != last:
            log.info("worker_counters", unaccounted=counts.read - counts.accounted, **now)
            last = now
