"""Contacts that have been idle for 15 minutes leave a tombstone (design, decision 3)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from streams.contact import Contact
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
            items = list(contacts.partition_items(partition))
            for start in range(0, len(items), SLICE):
                forgotten += _forget(
                    contacts, partition, items[start : start + SLICE], written_below, wall_ms()
                )
                await asyncio.sleep(0)
        if forgotten:
            log.info("contacts_forgotten", contacts=forgotten)


def _forget(
    contacts: Contacts,
    partition: int,
    items: list[tuple[bytes, Contact]],
    written_below: Callable[[int], int],
    now_ms: int,
) -> int:
    """Forget what can be forgotten of one slice, in one flush; returns how many."""
    below, forgotten = written_below(partition), 0
    for key, contact in items:
        if contacts.get(key, partition) is contact and forgettable(contact, below, now_ms):
            contacts.put(key, None, partition)
            forgotten += 1
    if forgotten:
        contacts.flush()
    return forgotten
