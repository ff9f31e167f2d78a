"""Contacts that have been idle for 15 minutes leave a tombstone (design, decision 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from streams.ports import Contacts
from streams.windows import forgettable

log = structlog.get_logger(__name__)

EVERY_S: Final = 30.0
SLICE: Final = 2_000
"""Contacts looked at without letting others run."""


async def forget_idle(
    contacts: Contacts, written_below: Callable[[int], int], wall_ms: Callable[[], int]
) -> None:
    """Look through the owned contacts for ever; forget those of which nothing would be missed."""
    while True:
        await asyncio.sleep(EVERY_S)
        forgotten = 0
        for partition in sorted(contacts.owned):
            keys = list(contacts.partition_keys(partition))
            for start in range(0, len(keys), SLICE):
                forgotten += _forget(
                    contacts, partition, keys[start : start + SLICE], written_below, wall_ms()
                )
                await asyncio.sleep(0)
        if forgotten:
            log.info("contacts_forgotten", contacts=forgotten)


def _forget(
    contacts: Contacts,
    partition: int,
    keys: list[bytes],
    written_below: Callable[[int], int],
    now_ms: int,
) -> int:
    """Forget what can be forgotten of one slice, in one flush; returns how many."""
    below, forgotten = written_below(partition), 0
    for key in keys:
        contact = contacts.peek(key, partition)
        if contact is not None and forgettable(contact, below, now_ms):
            contacts.put(key, None, partition)
            forgotten += 1
    if forgotten:
        contacts.flush()
    return forgotten
