"""Facts about the reference's polling and debounce, as they are with windows: pure, in skipped time.

What rides along on a waiting job there joins an open window here.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import pytest
from structlog.testing import capture_logs

from settings import Settings
from streams.contact import Contact
from streams.sweep_rounds import SweepRounds
from streams.windows import WindowRule, drop, take_in
from tests.unit.builders import event, uid
from tests.unit.living import pass_time, publish
from tests.unit.worlds import Worker, World

T0 = 1_700_000_000_000
EIGHT_SECONDS = WindowRule(8_000)


def take(contact: Contact, name: str, at: int, rule: WindowRule = EIGHT_SECONDS) -> str:
    """Take an event in at a time after T0; says what came of it."""
    one = event(name, at=T0 + at, offset=contact.offset + 1)
    return take_in(contact, one, rule, (), T0 + at)[0]


# -- debounce


def test_b087_a_later_message_joins_and_moves_nothing() -> None:
    contact = Contact("t")
    assert take(contact, "e1", 0) == "opened"
    assert take(contact, "e2", 7_000) == "joined"
    (window,) = contact.windows
    assert window.deadline_ms == T0 + 8_000


def test_b088_the_job_runs_a_window_after_its_first_message() -> None:
    world = World()

    async def scenario() -> None:
        worker = Worker(world)
        publish(world, "e1")
        await pass_time(world, worker, 7_999, 1)
        assert not world.jobs(), "not before the window is over"
        await pass_time(world, worker, 1, 1)

    asyncio.run(scenario())
    (job,) = world.jobs()
    assert job.run_after_ms == job.created_at_ms == world.log[0].timestamp + 8_000


@pytest.mark.parametrize("rule", [WindowRule(0), WindowRule(0, mode="sliding")])
def test_b089_without_a_window_every_message_is_its_own_job_at_once(rule: WindowRule) -> None:
    contact = Contact("t")
    assert [take(contact, name, 0, rule) for name in ("e1", "e2")] == ["opened", "opened"]
    assert {window.deadline_ms for window in contact.windows} == {T0}


def test_b089_differs_a_window_that_is_open_takes_the_message_whatever_the_length_is_by_now() -> None:
    contact = Contact("t")
    take(contact, "e1", 0)
    assert take(contact, "e2", 1, WindowRule(0)) == "joined"


def test_b090_a_message_after_the_deadline_opens_a_window_of_its_own() -> None:
    contact = Contact("t")
    take(contact, "e1", 0)
    assert take(contact, "e2", 8_001) == "opened"
    assert [window.deadline_ms - T0 for window in contact.windows] == [8_000, 16_001]


def test_b091_what_is_decided_or_done_or_anothers_absorbs_nothing() -> None:
    contact = Contact("t")
    take(contact, "e1", 0)
    contact.windows[0].state = "frozen"
    assert take(contact, "e2", 1) == "opened", "the first is being sent: its job is made"
    drop(contact, contact.windows[0], 0, T0 + 2)
    drop(contact, contact.windows[0], 0, T0 + 2)
    assert take(contact, "e3", 3) == "opened", "both are done"


def test_b104_two_contacts_two_jobs() -> None:
    world = World()

    async def scenario() -> None:
        worker = Worker(world)
        publish(world, "e1", contact="ana", conversation="c1")
        publish(world, "e2", contact="bia", conversation="c2")
        await pass_time(world, worker, 8_000)

    asyncio.run(scenario())
    assert sorted(job.contact_id or "" for job in world.jobs()) == sorted([uid("ana"), uid("bia")])


def test_b097_b103_two_conversations_of_a_contact_two_jobs() -> None:
    """The reference lets one ride on the other's job: the customer gets no answer there."""
    world = World()

    async def scenario() -> None:
        worker = Worker(world)
        publish(world, "e1", conversation="c1")
        publish(world, "e2", conversation="c2")
        await pass_time(world, worker, 8_000)

    asyncio.run(scenario())
    jobs = {job.source_event_id: job for job in world.jobs()}
    assert set(jobs) == {uid("e1"), uid("e2")}
    assert uid("c1") in jobs[uid("e1")].payload and uid("c2") in jobs[uid("e2")].payload


def test_b129_inside_a_window_the_order_is_that_of_the_log() -> None:
    """The reference's batches come in the order of the plan; ours in that of commits, whatever clocks say."""
    world = World()

    async def scenario() -> None:
        worker = Worker(world)
        for n, earlier_ms in enumerate((0, 3_000, 1_000, 2_000)):
            publish(world, f"e{n}", age_ms=earlier_ms)
        await pass_time(world, worker, 8_000)

    asyncio.run(scenario())
    (job,) = world.jobs()
    assert [one.event_id for one in job.events] == [uid(f"e{n}") for n in range(4)]


# -- simulations: one customer writes, one turn at a time answers


@dataclass(frozen=True)
class Answered:
    """What a customer got: messages of each turn, and the longest wait for a turn's start (ms)."""

    turns: list[int]
    longest_wait_ms: int


def answered(rule: WindowRule, messages: int, every_ms: int, turn_ms: int) -> Answered:
    """Cut the messages into windows as they come; the contact's lane runs the jobs one after another."""
    world = World(rule=rule)

    async def scenario() -> None:
        worker = Worker(world)
        for n in range(messages):
            publish(world, f"e{n}")
            await pass_time(world, worker, every_ms - 100, 100)
            world.now_ms += 100
        await pass_time(world, worker, rule.max_wait_ms, 100)

    asyncio.run(scenario())
    written = {uid(f"e{n}"): record.timestamp for n, record in enumerate(world.log)}
    free_at, longest_wait_ms, turns = 0, 0, []
    for job in world.jobs():
        starts_at = max(job.run_after_ms, free_at)
        free_at = starts_at + turn_ms
        longest_wait_ms = max(longest_wait_ms, starts_at - min(written[one.event_id] for one in job.events))
        turns.append(len(job.events))
    assert sum(turns) == messages
    return Answered(turns, longest_wait_ms)


# A message at the very deadline is the window's last here; a poll that comes a moment later misses it there.


def test_b105_the_reference_needs_12_turns_of_2_and_2_s_we_need_8_of_3_and_2_s() -> None:
    assert answered(WindowRule(2_000), 24, 1_000, 1_500) == Answered([3] * 8, 2_000)


def test_b106_with_slow_turns_the_reference_makes_one_wait_112_s_we_65_s() -> None:
    """The lane is the limit, not the window: merging the turns that wait is for those who run them."""
    assert answered(WindowRule(2_000), 24, 1_000, 12_000) == Answered([3] * 8, 65_000)


def test_b107_the_reference_answers_a_quick_burst_with_10_and_2_after_3_s_we_with_11_and_1() -> None:
    assert answered(WindowRule(2_000), 12, 200, 3_000) == Answered([11, 1], 2_800)


def test_b108_a_sliding_window_with_a_ceiling_answers_a_steady_writer_once_a_ceiling() -> None:
    assert answered(WindowRule(2_000, "sliding", 10_000), 24, 1_000, 1_500) == Answered([11, 11, 2], 10_000)
    assert answered(WindowRule(2_000, "sliding", 30_000), 24, 1_000, 1_500) == Answered([24], 25_000)


# -- loops


def test_b135_a_stop_during_the_wait_ends_at_once_and_leaves_nothing_behind() -> None:
    world = World()

    async def scenario() -> None:
        worker = Worker(world)
        publish(world, "e1")
        await worker.collect(1)
        running = asyncio.create_task(worker.flusher.run())
        await asyncio.sleep(0.01)
        worker.flusher.stop()
        await asyncio.wait_for(running, 1)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(scenario())
    assert not world.jobs(), "its window is eight seconds long: it waits in the changelog"


async def test_b136_a_round_that_fails_is_told_and_the_next_one_tries(unused_tcp_port: int) -> None:
    """Of what polls at all: the sweep. An unexpected error of the streams ends the process, on purpose."""
    nobody = f"127.0.0.1:{unused_tcp_port}"
    rounds = SweepRounds(f"postgresql://x@{nobody}/x", nobody, Settings(sweep_every_s=0.01))
    with capture_logs() as logs:
        running = asyncio.create_task(rounds.run())
        for _ in range(2_000):
            await asyncio.sleep(0.005)
            if int(rounds.told()["sweeps_failed"]) >= 2:
                break
        running.cancel()
        await asyncio.wait({running})
    assert [one["event"] for one in logs][:2] == ["sweep_failed"] * 2
    assert rounds.told()["sweep"] == "failed: Postgres is away"


# -- configuration


@pytest.mark.parametrize(
    ("days", "expected"),
    [
        (None, 21),
        ("", 21),
        ("x", 21),
        ("nan", 21),
        ("inf", 21),
        ("0", 21),
        ("-3", 21),
        ("7", 7),
        ("0.5", 0.5),
    ],
)
def test_b061_days_that_are_no_positive_number_mean_21(
    monkeypatch: pytest.MonkeyPatch, days: str | None, expected: float
) -> None:
    monkeypatch.delenv("ALLOWLIST_TTL_DAYS", raising=False)
    if days is not None:
        monkeypatch.setenv("ALLOWLIST_TTL_DAYS", days)
    assert Settings().allowlist_ttl_days == expected
