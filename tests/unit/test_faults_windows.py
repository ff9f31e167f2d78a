"""Faults that others met with windows in a table, by id: restored ones stay, closed ones are empty."""

from __future__ import annotations

import asyncio

import pytest

from streams.decide import Decision
from streams.forget import _forget
from streams.question import Question
from streams.windows import WindowRule
from tests.unit.builders import uid
from tests.unit.test_freeze_protocol import settle, write
from tests.unit.worlds import CHANGELOG, Worker, World, enqueue

CONTACTS = 1_000
HOUR_MS = 3_600_000


@pytest.mark.thorough
def test_br_14_contacts_restored_from_the_changelog_expire_and_leave_tombstones() -> None:
    """A restart forgets no deadline: windows close, and what is idle goes, as if nothing had happened."""
    world = World(rule=WindowRule(1_000))

    async def scenario() -> None:
        first = Worker(world)
        for number in range(CONTACTS):
            write(world, f"e{number}", contact=f"c{number}")
        await first.collect(CONTACTS)
        await first.commit()
        assert len(world.contacts()) == CONTACTS
        world.die({})

        restored = Worker(world)
        world.now_ms += 2_000
        await settle(world, restored)
        assert len(world.jobs()) == CONTACTS
        world.written = len(world.outcomes())
        world.now_ms += HOUR_MS
        keys = list(restored.partition_keys(0))
        assert _forget(restored, 0, keys, lambda _: world.written, world.now_ms) == CONTACTS
        await asyncio.sleep(0)

    asyncio.run(scenario())
    assert world.contacts() == {}
    last = {key: value for key, value, _, _ in world.durable[CHANGELOG]}
    assert len(last) == CONTACTS
    assert not any(last.values()), "every key ends in a tombstone"


def test_br_15_whoever_closes_a_window_gets_all_of_it_once_even_after_a_restart() -> None:
    """Five messages, the worker dies between the third and the fourth."""
    world, seen = World(rule=WindowRule(5_000)), []

    def decide(question: Question) -> Decision:
        seen.append([member.event_id for member in question.events])
        return enqueue(question)

    world.decide = decide

    async def scenario() -> None:
        first = Worker(world)
        for number in range(3):
            write(world, f"e{number}")
        await first.collect(3)
        await first.commit()
        world.die({})

        second = Worker(world)
        for number in range(3, 5):
            write(world, f"e{number}")
        await second.collect(2)
        await settle(world, second)

    asyncio.run(scenario())
    five = [uid(f"e{number}") for number in range(5)]
    assert seen == [five]
    assert [[event.event_id for event in job.events] for job in world.jobs()] == [five]
