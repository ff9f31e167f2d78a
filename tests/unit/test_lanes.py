"""Lanes: fair between organizations, within their limits, and nobody waits for a stranger's slowness."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import Job
from streams.handlers.answers import Answer, Done, Retry
from streams.lanes import EVERYBODY, Lanes, Limits, eligible_at
from streams.turns import Turn
from tests.unit.job_worlds import START_MS, Worker, World, job_of, key_of, uuid


def turn(
    name: str, organization: str = "a", *, priority: int = 100, session: str | None = None, kind: str = "k",
    not_before_ms: int = 0,
) -> Turn:  # fmt: skip
    return Turn(name.encode(), 0, organization, f"job {name}", kind, session, priority, not_before_ms)


def names(turns: list[Turn]) -> list[str]:
    return [one.key.decode() for one in turns]


def test_the_cap_is_never_exceeded_and_freed_slots_are_filled_b162() -> None:
    lanes = Lanes(Limits(concurrency=3, rate_per_s=0))
    for n in range(10):
        lanes.offer(turn(str(n)), 0)
    assert names(lanes.take(0, ())) == ["0", "1", "2"]
    assert lanes.take(0, ()) == []
    lanes.ended(b"1")
    assert names(lanes.take(0, ())) == ["3"]


def test_lower_priority_numbers_go_first_then_who_came_first_b163() -> None:
    lanes = Lanes(Limits(concurrency=10, rate_per_s=0))
    for name, priority in (("a", 100), ("b", 50), ("c", 100), ("d", 50)):
        lanes.offer(turn(name, priority=priority), 0)
    assert names(lanes.take(0, ())) == ["b", "d", "a", "c"]


def test_a_job_whose_time_has_not_come_is_not_taken_b164() -> None:
    lanes = Lanes(Limits(rate_per_s=0))
    lanes.offer(turn("later", not_before_ms=1_000), 0)
    lanes.offer(turn("now"), 0)
    assert names(lanes.take(999, ())) == ["now"]
    assert lanes.next_due() == 1_000
    assert names(lanes.take(1_000, ())) == ["later"]


def test_one_contact_is_offered_once_and_runs_once_b161() -> None:
    lanes = Lanes(Limits(rate_per_s=0))
    lanes.offer(turn("x"), 0)
    lanes.offer(turn("x", priority=1), 0)
    assert names(lanes.take(0, ())) == ["x"]
    assert lanes.is_running(b"x") and lanes.take(0, ()) == []


def test_a_flood_of_one_organization_delays_anothers_three_by_nothing() -> None:
    lanes = Lanes(Limits(concurrency=4, rate_per_s=0))
    for n in range(1_000):
        lanes.offer(turn(f"flood {n}", "big"), 0)
    running = names(lanes.take(0, ()))
    for n in range(3):
        lanes.offer(turn(f"small {n}", "small"), 0)
    lanes.ended(running[0].encode())
    assert names(lanes.take(0, ())) == ["small 0"]
    lanes.ended(running[1].encode())
    assert names(lanes.take(0, ())) == ["small 1"], "fewest running for its weight: 1 of small, 2 of big"


def test_weights_share_the_slots() -> None:
    lanes = Lanes(Limits(concurrency=9, rate_per_s=0, weights={"gold": 2.0}))
    for n in range(50):
        lanes.offer(turn(f"g{n}", "gold"), 0)
        lanes.offer(turn(f"s{n}", "silver"), 0)
    taken = Counter(one.organization_id for one in lanes.take(0, ()))
    assert taken == {"gold": 6, "silver": 3}


def test_a_paused_organization_starts_nothing_and_everybody_means_everybody() -> None:
    lanes = Lanes(Limits(rate_per_s=0))
    lanes.offer(turn("x", "a"), 0)
    lanes.offer(turn("y", "b"), 0)
    assert lanes.take(0, {EVERYBODY}) == []
    assert names(lanes.take(0, {"a"})) == ["y"]
    assert names(lanes.take(0, ())) == ["x"]


def test_a_sessions_rate_holds_over_time_and_others_pass() -> None:
    lanes = Lanes(Limits(concurrency=1_000, rate_per_s=80))
    lanes.rates.share = 0.25
    for n in range(100):
        lanes.offer(turn(f"s{n}", session="slow"), 0)
    lanes.offer(turn("other", session="else"), 0)
    started = []
    for now_ms in range(0, 10_000, 10):
        started += [(now_ms, one.key) for one in lanes.take(now_ms, ())]
    assert len(started) == 101
    assert (0, b"other") in started
    of_slow = [at for at, key in started if key != b"other"]
    for begin in range(0, 9_000, 250):
        in_a_second = sum(begin <= at < begin + 1_000 for at in of_slow)
        assert in_a_second <= 20 + 20, "a quarter of 80 a second, and at most a second's worth at once"
    assert 3_900 <= of_slow[-1] <= 5_000


def test_offering_a_waiting_job_again_does_not_use_the_rate_up() -> None:
    lanes = Lanes(Limits(concurrency=10, rate_per_s=2))
    for n in range(4):
        lanes.offer(turn(f"s{n}", session="x"), 0)
    lanes.take(0, ())
    for _ in range(50):
        for n in range(4):
            if not lanes.is_running(f"s{n}".encode()):
                lanes.offer(turn(f"s{n}", session="x", priority=100), 0)
        lanes.take(1, ())
    assert len(lanes.take(2_000, ())) + lanes.running >= 4


def test_spacing_counts_from_the_newest_start() -> None:
    assert eligible_at([], 6_000) == 0
    assert eligible_at([0, 5_000, 1_000], 6_000) == 11_000
    assert eligible_at([5_000], 0) == 0


def test_so_many_of_a_kind_at_a_time() -> None:
    lanes = Lanes(Limits(concurrency=10, rate_per_s=0, batch_of_kind={"link": 2}))
    for n in range(5):
        lanes.offer(turn(f"l{n}", kind="link"), 0)
    lanes.offer(turn("t"), 0)
    assert names(lanes.take(0, ())) == ["l0", "l1", "t"]
    lanes.ended(b"l0")
    assert names(lanes.take(0, ())) == ["l2"]


@pytest.mark.thorough
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["offer", "withdraw", "end", "take"]), st.integers(0, 9), st.integers(0, 2)
        ),
        max_size=80,
    ),
    st.integers(1, 4),
)
def test_no_turn_is_lost_and_none_runs_twice(script: list[tuple[str, int, int]], cap: int) -> None:
    lanes = Lanes(Limits(concurrency=cap, rate_per_s=0))
    offered: set[bytes] = set()
    running: set[bytes] = set()
    for what, contact, organization in script:
        key = f"{organization}:{contact}".encode()
        if what == "offer" and key not in running:
            lanes.offer(turn(key.decode(), str(organization)), 0)
            offered.add(key)
        elif what == "withdraw" and key not in running:
            lanes.withdraw(key)
            offered.discard(key)
        elif what == "end":
            lanes.ended(key)
            running.discard(key)
        elif what == "take":
            taken = {one.key for one in lanes.take(0, ())}
            assert taken <= offered and not taken & running
            running |= taken
            offered -= taken
            assert len(running) <= cap
    while offered:
        for key in list(running):
            lanes.ended(key)
            running.discard(key)
        taken = {one.key for one in lanes.take(0, ())}
        assert taken, "who waits is taken in the end"
        offered -= taken
        running |= taken


def test_24_messages_at_one_a_second_and_turns_of_12_s_need_at_most_3_turns() -> None:
    """spec/jobs.md, "Lanes": here without windows, each message a job of its own, which is the worse case."""

    async def story() -> None:
        world = World(engine=lambda job, attempt: 12_000)
        worker = Worker(world)
        await worker.begin()
        for n in range(24):
            world.give(job_of(n + 1, run_after_ms=world.now_ms, created_at_ms=world.now_ms))
            await worker.live(world.now_ms + 1_000, step_ms=500)
        await worker.live(START_MS + 60_000)
        assert len(world.calls) <= 3
        ended = {one.job.id: one.at_ms for one in world.outcomes() if one.job and one.job_status == "done"}
        runs = {job_id: at for at, job_id, _ in world.calls}
        for n in range(24):
            asked = START_MS + n * 1_000
            job_id = uuid(50_000 + n + 1)
            outcome = world.rows()[job_id].outcome or ""
            answered_by = outcome.removeprefix("merged:") if outcome.startswith("merged:") else job_id
            assert answered_by in runs
            assert ended[answered_by] - asked <= 2 * 12_000, "nobody waits longer than two turns"

    asyncio.run(story())


@pytest.mark.thorough
def test_a_fifth_of_contacts_that_always_fail_costs_the_others_less_than_a_tenth() -> None:
    """In simulated time: 200 contacts, 5 jobs each, turns of 1 s, 16 slots; failing takes 1 s, too."""
    bad = {uuid(10_000 + contact) for contact in range(1, 41)}

    def took(failing: bool) -> int:
        def engine(job: Job, attempt: int) -> Answer | float | tuple[float, Answer]:
            return (1_000, Retry("http_500")) if failing and job.contact_id in bad else 1_000

        async def story() -> int:
            world = World(engine=engine)
            worker = Worker(world, concurrency=16)
            await worker.begin()
            others = []
            for number in range(1_000):
                contact = number % 200 + 1
                job = job_of(number + 1, contact, conversation=number + 1)
                world.give(job)
                others += [job.id] if job.contact_id not in bad else []
            left = set(others)
            while left:
                await worker.live(world.now_ms + 5_000, step_ms=500)
                ended = {job_id for jobs in worker.memory.values() for job_id, head in jobs.heads.items()
                         if head.state.ended}  # fmt: skip
                left -= ended
            rows = world.rows()
            return max(rows[job_id].at_ms for job_id in others) - START_MS

        return asyncio.run(story())

    assert took(failing=True) < 1.1 * took(failing=False)


def test_a_willing_engine_leaves_nothing_behind() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Done())
        worker = Worker(world, spacing_ms=6_000)
        await worker.begin()
        world.give(job_of(1))
        await worker.turn()
        world.give(job_of(2))
        await worker.turn()
        assert len(world.calls) == 1, "the same person again only 6 s later"
        await worker.live(START_MS + 7_000)
        assert [at - START_MS for at, _, _ in world.calls] == [0, 6_000]
        assert worker.lanes.waiting == worker.lanes.running == 0
        assert key_of() in worker.memory

    asyncio.run(story())


def test_places_in_a_rate_that_passed_during_a_pause_are_not_made_up_for_afterwards() -> None:
    lanes = Lanes(Limits(concurrency=1_000, rate_per_s=10))
    for n in range(600):
        lanes.offer(turn(f"s{n}", session="x"), 0)
    begun = len(lanes.take(0, ()))
    assert lanes.take(60_000, {"a"}) == []
    started = [at for at in range(60_000, 130_000, 50) for _ in lanes.take(at, ())]
    assert begun + len(started) == 600
    for begin in range(60_000, 125_000, 500):
        assert sum(begin <= at < begin + 1_000 for at in started) <= 10 + 10


def test_full_slots_do_not_save_up_a_rate_either_and_nobody_starves() -> None:
    lanes = Lanes(Limits(concurrency=4, rate_per_s=10))
    for n in range(200):
        lanes.offer(turn(f"s{n}", session="x"), 9_000)
    stuck = lanes.take(9_000, ())
    assert len(stuck) == 4
    assert lanes.take(30_000, ()) == []
    for one in stuck:
        lanes.ended(one.key)
    started = []
    for now_ms in range(30_000, 90_000, 50):
        for one in lanes.take(now_ms, ()):
            started.append(now_ms)
            lanes.ended(one.key)
    assert len(started) == 196
    for begin in range(30_000, 60_000, 500):
        assert sum(begin <= at < begin + 1_000 for at in started) <= 10 + 10


def test_a_paused_organizations_backlog_counts_for_itself_alone() -> None:
    lanes = Lanes(Limits(rate_per_s=0))
    for n in range(5):
        lanes.offer(turn(f"a{n}", "a"), 0)
    lanes.offer(turn("b", "b"), 0)
    lanes.offer(turn("b", "b", priority=1), 0)
    assert (lanes.waiting, lanes.waiting_but({"a"}), lanes.waiting_but({"c"})) == (6, 1, 6)
    assert lanes.waiting_but({EVERYBODY}) == 6, "nobody could run: the rest waits in Kafka"
    lanes.withdraw(b"b")
    assert lanes.waiting_but({"a"}) == 0
    assert len(lanes.take(0, ())) == 5 and lanes.waiting_but(()) == 0


@pytest.mark.thorough
def test_sessions_that_nobody_speaks_of_any_more_are_forgotten() -> None:
    lanes = Lanes(Limits(concurrency=10**6, rate_per_s=10))
    for n in range(30_000):
        lanes.offer(turn(str(n), session=str(n)), n)
        lanes.take(n, ())
    assert len(lanes.rates._next) < 15_000
