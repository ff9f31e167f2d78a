"""The same log gives the same windows, however it is read: live, as a backlog, in batches of any size.

Through the real collecting, agenda and closing; only Kafka, Postgres and the clocks are plain objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.windows import WindowRule
from tests.unit.living import work
from tests.unit.test_freeze_protocol import settle, write
from tests.unit.worlds import Worker, World

RULES = [
    WindowRule(8_000),
    WindowRule(0),
    WindowRule(8_000, max_events=3),
    WindowRule(4_000, "sliding", 9_000),
    WindowRule(2_000, "sliding", 30_000, max_events=5),
]


@dataclass(frozen=True)
class Arrival:
    """A record of the log: it comes so long after the one before, its event was committed a while ago."""

    contact: str
    conversation: str
    after_ms: int
    late_ms: int = 0


def arrivals(latest_ms: int) -> st.SearchStrategy[list[Arrival]]:
    one = st.builds(
        Arrival,
        contact=st.sampled_from(["ana", "bia", "caio"]),
        conversation=st.sampled_from(["c1", "c2"]),
        after_ms=st.one_of(st.integers(0, 3_000), st.integers(0, 20_000)),
        late_ms=st.one_of(st.just(0), st.integers(0, latest_ms)),
    )
    return st.lists(one, min_size=1, max_size=25)


def append(world: World, number: int, one: Arrival, at_ms: int) -> None:
    write(world, f"e{number}", one.contact, f"{one.conversation} of {one.contact}", at=at_ms - one.late_ms)


def windows(world: World) -> list[tuple[str, ...]]:
    """The windows as their jobs tell them: events in order."""
    return sorted(tuple(one.event_id for one in job.events) for job in world.jobs())


def live(log: Sequence[Arrival], rule: WindowRule, step_ms: int = 100) -> list[tuple[str, ...]]:
    """Every record is read a moment after it came; one of the millisecond of a deadline before its timer."""
    world = World(rule=rule)

    async def scenario() -> None:
        worker = Worker(world)
        for number, one in enumerate(log):
            end = world.now_ms + one.after_ms
            while world.now_ms < end:
                await work(worker)
                world.now_ms = min(world.now_ms + step_ms, end)
            append(world, number, one, world.now_ms)
        await settle(world, worker)

    asyncio.run(scenario())
    return windows(world)


def backlog(log: Sequence[Arrival], rule: WindowRule, batches: Sequence[int]) -> list[tuple[str, ...]]:
    """An hour later a worker that knows nothing reads it all, in these batches (the last one repeats).

    A batch of n > 0 records is followed by all that is due then; -n reads n and closes nothing meanwhile.
    """
    world = World(rule=rule)
    at_ms = world.now_ms
    for number, one in enumerate(log):
        at_ms += one.after_ms
        append(world, number, one, at_ms)
    world.now_ms = at_ms + 3_600_000

    async def scenario() -> None:
        worker, turn = Worker(world), 0
        while worker.position < len(world.log):
            batch = batches[min(turn, len(batches) - 1)]
            await worker.collect(abs(batch))
            while batch > 0 and await worker.flusher.step():
                pass
            turn += 1
        await settle(world, worker)

    asyncio.run(scenario())
    return windows(world)


batches = st.lists(st.integers(-6, 6).filter(bool), min_size=1, max_size=20)


def alike(log: list[Arrival], rule: WindowRule, sizes: list[int]) -> None:
    one_by_one = backlog(log, rule, [1])
    assert backlog(log, rule, [-len(log)]) == one_by_one, "in one go"
    assert backlog(log, rule, sizes) == one_by_one


@pytest.mark.thorough
@settings(max_examples=60)
@given(arrivals(latest_ms=40_000), st.sampled_from(RULES), batches)
def test_a_backlog_gives_the_same_windows_in_batches_of_any_size(
    log: list[Arrival], rule: WindowRule, sizes: list[int]
) -> None:
    alike(log, rule, sizes)


@pytest.mark.thorough
@settings(max_examples=40)
@given(arrivals(latest_ms=0), st.sampled_from(RULES), batches)
def test_a_backlog_gives_the_same_windows_as_live(
    log: list[Arrival], rule: WindowRule, sizes: list[int]
) -> None:
    assert backlog(log, rule, sizes) == live(log, rule)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(arrivals(latest_ms=40_000), arrivals(latest_ms=0), st.sampled_from(RULES), batches)
def test_many_more_logs_give_the_same_windows(
    shuffled: list[Arrival], in_order: list[Arrival], rule: WindowRule, sizes: list[int]
) -> None:
    alike(shuffled, rule, sizes)
    assert backlog(in_order, rule, sizes) == live(in_order, rule)


@pytest.mark.parametrize("rule", [WindowRule(8_000), WindowRule(8_000, "sliding", 20_000)])
def test_an_event_of_the_deadlines_own_millisecond_is_in_the_window_live_and_in_a_backlog(
    rule: WindowRule,
) -> None:
    at_the_deadline = [Arrival("ana", "c1", 0), Arrival("ana", "c1", 8_000)]
    (together,) = backlog(at_the_deadline, rule, [1])
    assert len(together) == 2 and live(at_the_deadline, rule) == [together]
    a_moment_later = [Arrival("ana", "c1", 0), Arrival("ana", "c1", 8_001)]
    assert len(backlog(a_moment_later, rule, [1])) == len(live(a_moment_later, rule)) == 2
