"""A channel session's rate: nobody sends faster, whatever restarts, and who doesn't start takes no place."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import Command
from streams.lanes import Lanes, Limits
from streams.rates import BURST_MS
from streams.turns import Turn
from tests.unit.job_worlds import START_MS, Worker, World, job_of, key_of, uuid

RATE = 10


def turn(name: str, session: str = "x", priority: int = 100) -> Turn:
    return Turn(name.encode(), 0, "org", f"job {name}", "k", session, priority)


def full(count: int = 600, concurrency: int = 10_000) -> tuple[Lanes, list[Turn]]:
    """A session whose second's worth has started; all others wait for their places."""
    lanes = Lanes(Limits(concurrency=concurrency, rate_per_s=RATE))
    for n in range(count):
        lanes.offer(turn(f"s{n}"), START_MS)
    return lanes, lanes.take(START_MS, ())


def test_who_is_cancelled_while_he_waits_for_the_rate_has_taken_no_place() -> None:
    lanes, begun = full()
    assert len(begun) == RATE
    for n in range(600):
        lanes.withdraw(f"s{n}".encode())
    lanes.offer(turn("late"), START_MS + 50)
    assert lanes.take(START_MS + 50, ()) == []
    assert lanes.next_due() == START_MS + 100
    assert [one.key for one in lanes.take(START_MS + 100, ())] == [b"late"]


def test_a_place_that_was_taken_for_a_job_that_did_not_start_is_the_next_ones() -> None:
    lanes, begun = full(RATE + 1)
    assert lanes.take(START_MS, ()) == []
    lanes.not_started(begun[0], START_MS)
    assert lanes.next_due() == START_MS
    assert len(lanes.take(START_MS, ())) == 1
    assert lanes.take(START_MS, ()) == []


def test_they_start_in_the_order_in_which_they_came_and_urgent_ones_first() -> None:
    lanes, begun = full(30)
    lanes.offer(turn("urgent", priority=0), START_MS + 10)
    order = list(begun)
    for now_ms in range(START_MS, START_MS + 5_000, 10):
        order += lanes.take(now_ms, ())
    names = [one.key.decode() for one in order]
    assert names == [f"s{n}" for n in range(RATE)] + ["urgent"] + [f"s{n}" for n in range(RATE, 30)]


def test_a_merge_does_not_send_a_contact_to_the_end() -> None:
    lanes = Lanes(Limits(concurrency=1, rate_per_s=0))
    lanes.offer(turn("first"), 0)
    (running,) = lanes.take(0, ())
    for n in range(5):
        lanes.offer(turn(f"s{n}"), 10 + n)
    survivor = Turn(b"s0", 0, "org", "the newest", "k", "x", 100)
    lanes.offer(survivor, 50)
    lanes.ended(running.key)
    assert lanes.take(60, ()) == [survivor]


@pytest.mark.thorough
def test_a_worker_that_is_killed_again_and_again_sends_no_faster_than_one_that_lives() -> None:
    """Its starts stand in the heads, so the next owner knows what the session has had."""

    async def story(lives: int, life_ms: int) -> list[int]:
        world = World(engine=lambda job, attempt: 3_600_000)
        for contact in range(1, 200):
            world.give(job_of(contact, contact))
        for _ in range(lives):
            worker = Worker(world, concurrency=1_000, rate_per_s=RATE)
            await worker.begin()
            await worker.live(world.now_ms + life_ms, step_ms=50)
            world.die({})
        return [at for at, _, _ in world.calls]

    started = asyncio.run(story(lives=20, life_ms=300))
    assert len(started) <= RATE + RATE * 20 * 300 // 1_000 + 1
    slow = asyncio.run(story(lives=3, life_ms=50))
    assert len(slow) <= RATE + 2, "150 ms in all"


def test_a_held_or_cancelled_job_leaves_its_place_to_the_next_one() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 3_600_000)
        worker = Worker(world, concurrency=1_000, rate_per_s=RATE)
        await worker.begin()
        for contact in range(1, 101):
            world.give(job_of(contact, contact))
        await worker.turn()
        assert len(world.calls) == RATE
        for contact in range(RATE + 1, 101):
            action = "cancel" if contact % 2 else "hold"
            order = Command(
                id=uuid(70_000 + contact), at_ms=START_MS, action=action, job_id=job_of(contact).id
            )
            world.order(order, key_of(contact))
        world.give(job_of(500, 500))
        await worker.live(START_MS + 100, step_ms=50)
        assert world.calls[-1][1] == job_of(500).id

    asyncio.run(story())


steps = st.lists(
    st.tuples(
        st.sampled_from(["offer", "withdraw", "end", "not started", "wait", "pause", "restart"]),
        st.integers(0, 30),
    ),
    max_size=120,
)


@pytest.mark.thorough
@given(steps, st.integers(1, 40), st.sampled_from([0.5, 3.0, 10.0, 80.0]))
def test_no_window_of_time_has_more_starts_than_the_rate_and_everybody_starts_in_the_end(
    script: list[tuple[str, int]], cap: int, rate: float
) -> None:
    now_ms, started, paused = START_MS, list[int](), frozenset[str]()
    lanes = Lanes(Limits(concurrency=cap, rate_per_s=rate))
    offered: set[str] = set()
    running: dict[str, Turn] = {}

    def take() -> None:
        for one in lanes.take(now_ms, paused):
            name = one.key.decode()
            assert name in offered and name not in running
            offered.discard(name)
            running[name] = one
            started.append(now_ms)

    for what, n in script:
        name = str(n)
        if what == "offer" and name not in running:
            lanes.offer(turn(name), now_ms)
            offered.add(name)
        elif what == "withdraw":
            lanes.withdraw(name.encode())
            offered.discard(name)
        elif what == "end":
            lanes.ended(name.encode())
            running.pop(name, None)
        elif what == "not started" and running and started and started[-1] == now_ms:
            name, one = running.popitem()
            lanes.not_started(one, now_ms)
            started.pop()
        elif what == "wait":
            now_ms += n * 20
        elif what == "pause":
            paused = frozenset() if paused else frozenset({"org"})
        elif what == "restart":
            lanes = Lanes(Limits(concurrency=cap, rate_per_s=rate))
            running.clear()
            for at in started:
                lanes.rates.began("x", at)
            for one_name in sorted(offered):
                lanes.offer(turn(one_name), now_ms)
        take()
    paused = frozenset()
    take()
    while offered:
        for name in list(running):
            lanes.ended(name.encode())
            del running[name]
        before = len(offered)
        take()
        if len(offered) == before:
            due = lanes.next_due()
            assert due is not None, "somebody waits, and nothing will wake them"
            now_ms = max(due, now_ms + 1)
    burst = max(rate * BURST_MS / 1000, 1)
    for first, at in enumerate(started):
        for last in range(first, len(started)):
            within_s = (started[last] - at) / 1000
            assert last - first + 1 <= burst + rate * within_s + 1e-6 + 1
