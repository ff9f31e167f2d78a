"""Faults that others met on their main path, by id; the others stand beside what they are about."""

from __future__ import annotations

import asyncio

import pytest

from streams.contact import Contact
from streams.decide import Decision, Emptied, WaitForMedia
from streams.forget import _forget
from streams.media import CEILING_MS
from streams.question import Question
from streams.windows import WindowRule, take_in
from tests.unit.builders import event, uid
from tests.unit.test_freeze_protocol import settle, write
from tests.unit.worlds import Worker, World, enqueue

BUSY_MS = 200
WINDOW_MS = 1_000
WINDOWS = 200
"""One after the other, 40 s of work in all: more than any bound on being late."""


def test_br_22_work_that_takes_its_time_makes_no_timer_drift() -> None:
    """A window's deadline is an instant; 200 ms of work in each cycle must not add up."""
    world = World(rule=WindowRule(WINDOW_MS))
    late: list[int] = []

    def decide(question: Question) -> Decision:
        late.append(question.now_ms - question.deadline_ms)
        world.now_ms += BUSY_MS
        return enqueue(question)

    world.decide = decide

    async def scenario() -> None:
        worker = Worker(world)
        for number in range(WINDOWS):
            write(world, f"e{number}", contact=f"c{number}")
            await worker.collect(1)
            end = world.now_ms + WINDOW_MS
            while world.now_ms < end:
                world.now_ms += 50
                await worker.flusher.step()
        await settle(world, worker)

    asyncio.run(scenario())
    assert len(world.jobs()) == WINDOWS
    assert min(late) >= 0
    assert max(late[-50:]) <= max(late[:50]) + 50, "lateness does not grow"


def test_br_28_each_inbox_has_its_own_window_and_order_is_the_logs() -> None:
    contact = Contact("t")
    rules = {"slow inbox": WindowRule(5_000), "instant inbox": WindowRule(0)}
    for number in range(4):
        for inbox, rule in rules.items():
            offset = contact.offset + 1
            at = 1_000_000 + number * 1_000
            take_in(
                contact, event(f"{inbox} {number}", at=at, conversation=inbox, offset=offset), rule, (), at
            )
    slow = [window for window in contact.windows if window.conversation_id == uid("slow inbox")]
    instant = [window for window in contact.windows if window.conversation_id == uid("instant inbox")]
    assert [[one.event_id for one in window.events] for window in slow] == [
        [uid(f"slow inbox {number}") for number in range(4)]
    ]
    assert [len(window.events) for window in instant] == [1, 1, 1, 1]


@pytest.mark.thorough
def test_br_52_events_told_again_after_the_contact_was_forgotten_make_no_second_job() -> None:
    """CDC re-emits the last 1,000 events after 20 idle minutes: stop 0 finds every one."""
    world = World(rule=WindowRule(WINDOW_MS))

    def decide(question: Question) -> Decision:
        answered = {one.event_id: job.id for job in world.jobs() for one in job.events}
        gone = tuple(
            (one.event_id, answered[one.event_id]) for one in question.events if one.event_id in answered
        )
        return Emptied(deduplicated=gone) if len(gone) == len(question.events) else enqueue(question)

    world.decide = decide

    async def scenario() -> None:
        worker = Worker(world)
        for number in range(1_000):
            write(world, f"e{number}", contact=f"c{number % 50}", conversation=f"c{number % 50}")
        await settle(world, worker)
        world.written = len(world.outcomes())
        world.now_ms += 20 * 60_000
        forgotten = _forget(worker, 0, list(worker.memory), lambda _: world.written, world.now_ms)
        assert forgotten == 50 and not worker.memory
        await asyncio.sleep(0)
        assert not world.contacts(), "the changelog holds a tombstone for each"
        before = {job.id for job in world.jobs()}
        for number in range(1_000):
            write(world, f"e{number}", contact=f"c{number % 50}", conversation=f"c{number % 50}")
        await settle(world, Worker(world))
        assert {job.id for job in world.jobs()} == before

    asyncio.run(scenario())


def test_no_event_waits_longer_than_its_window_and_the_media_ceiling() -> None:
    """With media that is never read, the job comes at the ceiling at the latest."""
    world = World(rule=WindowRule(WINDOW_MS))

    async def scenario() -> None:
        def decide(question: Question) -> Decision:
            left = question.deadline_ms + CEILING_MS - question.now_ms
            return WaitForMedia(recheck_in_ms=min(4_000, left)) if left > 0 else enqueue(question)

        world.decide = decide
        worker = Worker(world)
        write(world, "e0")
        await settle(world, worker)
        (job,) = world.jobs()
        assert job.created_at_ms - world.log[0].timestamp <= WINDOW_MS + CEILING_MS + 1_000

    asyncio.run(scenario())
