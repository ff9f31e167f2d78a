"""The executor: one job a contact at a time, attempts counted, nothing lost when a worker dies."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from typing import Any

import pytest

from schemas.codec import decode_job
from schemas.records import Command, Job
from streams.handlers.answers import Answer, Cancelled, Dead, Done, Hold, Retry
from streams.heads import State
from streams.job_endings import Rules
from tests.unit.job_worlds import ORGANIZATION, START_MS, Worker, World, job_of, key_of, state_of, uuid


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


async def worker_in(world: World, **more: Any) -> Worker:
    worker = Worker(world, **more)
    await worker.begin()
    return worker


def failing(job: Job, attempt: int) -> Answer:
    return Retry("http_500")


def statuses(world: World, job: Job) -> list[str | None]:
    """Without what was sent twice."""
    by_seq = {one.job.seq: one.job_status for one in world.outcomes(job.id) if one.job}
    return [by_seq[seq] for seq in sorted(by_seq)]


def test_a_job_runs_once_and_every_step_is_told() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        assert world.calls == [(START_MS, job.id, 1)]
        assert statuses(world, job) == ["running", "done"]
        told = [one.job.seq for one in world.outcomes(job.id) if one.job]
        assert told == sorted(set(told)) and told[0] > job.seq
        assert state_of(worker, job) is State.DONE
        assert worker.memory[key_of()].heads[job.id].job == b""

    play(story())


def test_the_fifth_failure_is_death_after_10_20_40_and_80_seconds_b168_b169() -> None:
    async def story() -> None:
        world = World(engine=failing)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.live(START_MS + 200_000)
        starts = [at - START_MS for at, _, _ in world.calls]
        assert [attempt for _, _, attempt in world.calls] == [1, 2, 3, 4, 5]
        waits = [later - earlier for earlier, later in pairwise(starts)]
        assert waits == [10_000, 20_000, 40_000, 80_000]
        row = world.rows()[job.id]
        assert (row.job_status, row.outcome) == ("dead", "dead:http_500")
        assert row.alert is not None and row.alert.kind == "job_dead"
        (letter,) = world.letters()
        headers = dict(letter[3] or ())
        assert letter[0] == key_of() and decode_job(letter[1] or b"").attempt == 0
        assert headers["job-id"] == job.id.encode() and headers["attempt"] == b"5"
        assert headers["reason"] == b"http_500" and headers["stage"] == b"execute"

    play(story())


def test_an_attempt_count_travels_in_the_record_not_in_a_worker_br_34() -> None:
    async def story() -> None:
        world = World(engine=failing)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.live(START_MS + 11_000)
        assert [attempt for _, _, attempt in world.calls] == [1, 2]
        await worker.executor.give_up(0)
        second = await worker_in(world)
        await second.live(START_MS + 200_000)
        assert [attempt for _, _, attempt in world.calls] == [1, 2, 3, 4, 5]

    play(story())


@pytest.mark.parametrize(
    ("answer", "status", "outcome", "alarmed", "buried"),
    [
        (Done({"id": 1}), "done", "done", False, False),
        (Cancelled("not_wanted"), "failed", "vetoed:not_wanted", False, False),
        (Dead("http_422: no"), "dead", "dead:http_422", True, True),
        (Hold("no_credentials"), "held", "held:no_credentials", True, False),
    ],
)
def test_each_answer_leads_where_the_spec_says(
    answer: Answer, status: str, outcome: str, alarmed: bool, buried: bool
) -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: answer)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        row = world.rows()[job.id]
        assert (row.job_status, row.outcome) == (status, outcome)
        assert (row.alert is not None) is alarmed
        assert bool(world.letters()) is buried

    play(story())


def test_waiting_turns_of_a_conversation_merge_into_the_newest_which_carries_all_events() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 12_000)
        worker = await worker_in(world)
        jobs = [job_of(n) for n in range(1, 5)]
        for job in jobs:
            world.give(job)
            await worker.turn()
        await worker.live(START_MS + 30_000)
        assert [job_id for _, job_id, _ in world.calls] == [jobs[0].id, jobs[3].id]
        rows = world.rows()
        assert [rows[job.id].outcome for job in jobs] == [
            "done", f"merged:{jobs[3].id}", f"merged:{jobs[3].id}", "done",
        ]  # fmt: skip
        survivor = rows[jobs[3].id].job
        assert survivor is not None
        assert [event.event_id for event in survivor.events] == [uuid(100_000 + n) for n in (2, 3, 4)]
        moved = {event.event_id: (one.job_id, event.seq) for one in world.outcomes() for event in one.events}
        assert {job_id for job_id, _ in moved.values()} == {jobs[3].id}
        assert all(seq > 1 for _, seq in moved.values())

    play(story())


def test_other_conversations_and_jobs_that_were_tried_do_not_merge() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 5_000)
        worker = await worker_in(world)
        jobs = [job_of(1), job_of(2, conversation=7), job_of(3, attempt=1), job_of(4, conversation=7)]
        for job in jobs:
            world.give(job)
        await worker.live(START_MS + 30_000)
        assert [job_id for _, job_id, _ in world.calls] == [jobs[0].id, jobs[3].id, jobs[2].id]
        assert world.together == 1

    play(story())


def test_a_newer_turn_passes_one_that_waits_for_its_retry_and_covers_it_br_35() -> None:
    """The policy is relaxed, and the older one's row says which job answered for it."""

    async def story() -> None:
        first, second = job_of(1), job_of(2)
        world = World(engine=lambda job, attempt: Retry("http_503") if job.id == first.id else Done())
        worker = await worker_in(world)
        world.give(first)
        await worker.turn()
        world.give(second)
        await worker.turn()
        await worker.live(START_MS + 60_000)
        assert [job_id for _, job_id, _ in world.calls] == [first.id, second.id]
        assert world.rows()[first.id].outcome == f"covered_by:{second.id}"
        assert not world.delayed

    play(story())


def test_one_contact_that_is_slow_holds_no_other() -> None:
    async def story() -> None:
        slow = job_of(1, contact=1)
        world = World(engine=lambda job, attempt: 60_000 if job.id == slow.id else Done())
        worker = await worker_in(world, concurrency=2)
        world.give(slow)
        others = [job_of(n, contact=n) for n in range(2, 30)]
        for job in others:
            world.give(job)
        await worker.turn()
        assert all(state_of(worker, job) is State.DONE for job in others)

    play(story())


def test_credit_spends_no_attempt_and_dies_after_six_hours_b181() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Retry("http_402", spends=False, kind="credit"))
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.live(START_MS + 6 * 3_600_000 + 700_000, step_ms=10_000)
        assert {attempt for _, _, attempt in world.calls} == {1}
        starts = [at - START_MS for at, _, _ in world.calls]
        assert starts[1] == 120_000 and starts[-1] == 6 * 3_600_000
        assert world.rows()[job.id].outcome == "dead:out_of_credit"
        alerts = [one.alert.kind for one in world.outcomes(job.id) if one.alert]
        assert len(alerts) == 2  # out of credit once, dead once

    play(story())


def test_a_session_that_does_not_work_is_looked_at_again_and_told_after_an_hour() -> None:
    async def story() -> None:
        world = World(asleep={uuid(30_000)})
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.live(START_MS + 90 * 60_000, step_ms=10_000)
        assert world.calls == []
        told = world.outcomes(job.id)
        assert {one.outcome for one in told} == {"retry:session_not_working"}
        waits = [one.next_attempt_at_ms - one.at_ms for one in told if one.next_attempt_at_ms]
        assert waits[:6] == [30_000, 60_000, 120_000, 240_000, 480_000, 600_000]
        assert len([one for one in told if one.alert]) == 1
        world.asleep.clear()
        await worker.live(world.now_ms + 700_000, step_ms=10_000)
        assert [attempt for _, _, attempt in world.calls] == [1]

    play(story())


def test_a_worker_that_dies_during_the_call_has_spent_the_attempt_b165_b173() -> None:
    """Attempts count at the start. Ours waits the backoff: whatever killed the worker may still be there."""

    async def story() -> None:
        world = World(engine=lambda job, attempt: 60_000 if attempt == 1 else Done())
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.die({})
        second = await worker_in(world)
        await second.live(START_MS + 20_000)
        assert [attempt for _, _, attempt in world.calls] == [1, 2]
        assert [one.outcome for one in world.outcomes(job.id)] == [None, "retry:worker_lost", None, "done"]

    play(story())


def test_a_job_that_kills_its_worker_dies_after_five_attempts_not_never() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 3_600_000)
        job = job_of(1)
        world.give(job)
        for _ in range(12):
            worker = await worker_in(world)
            await worker.live(world.now_ms + 130_000, step_ms=5_000)
            world.die({})
        assert [attempt for _, _, attempt in world.calls] == [1, 2, 3, 4, 5]
        assert world.rows()[job.id].outcome == "dead:worker_lost"

    play(story())


def test_a_graceful_stop_hands_a_running_job_back_and_the_attempt_too_b180() -> None:
    """After the grace it waits for nobody's reaper: the next owner has it at once."""

    async def story() -> None:
        world = World(engine=lambda job, attempt: 60_000)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        await worker.executor.give_up(0)
        assert world.heads()[job.id].state is State.WAITING
        world.engine = lambda job, attempt: Done()
        second = await worker_in(world)
        await second.turn()
        assert [attempt for _, _, attempt in world.calls] == [1, 1]
        assert statuses(world, job) == ["running", "pending", "running", "done"]

    play(story())


def test_handing_back_is_free_three_times_only() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 3_600_000)
        job = job_of(1)
        world.give(job)
        for _ in range(4):
            worker = await worker_in(world)
            await worker.turn()
            await worker.executor.give_up(0)
        assert world.heads()[job.id].state is State.DELAYED
        assert world.heads()[job.id].attempt == 1

    play(story())


def test_a_finished_job_is_never_called_again_whatever_is_redelivered() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.committed["dispatch.jobs"] = 0
        second = await worker_in(world)
        world.give(job)
        await second.turn(3)
        assert len(world.calls) == 1
        assert second.executor.tally.dropped == 2

    play(story())


def test_an_unknown_kind_is_dead_with_that_reason_and_the_worker_lives() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        world.give(job_of(1, kind="fax"))
        world.give(job_of(2, contact=2))
        await worker.turn()
        assert world.rows()[job_of(1).id].outcome == "dead:unknown_kind"
        assert world.rows()[job_of(2).id].outcome == "done"

    play(story())


@pytest.mark.parametrize("value", [b"\xff", b"\x00\x00\x00\x00\x01abc", b"\xc3\x01short", None])
def test_a_record_that_is_no_job_is_one_dead_letter_with_its_bytes_br_37(value: bytes | None) -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        world.append("dispatch.jobs", key_of(), value)
        world.give(job_of(2))
        await worker.turn()
        (letter,) = world.letters()
        assert letter[1] == value and letter[0] == key_of()
        (told,) = [one for one in world.outcomes() if one.status == "dead"]
        assert told.alert is not None and told.stage == "execute"
        assert world.rows()[job_of(2).id].outcome == "done"

    play(story())


def test_jobs_of_the_crms_own_workers_are_left_alone() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        world.give(job_of(1, run_by="table"))
        await worker.turn()
        assert world.calls == [] and worker.memory == {}
        assert worker.executor.tally.elsewhere == 1

    play(story())


def test_a_held_job_for_want_of_an_engine_runs_when_there_is_one() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Hold("no_engine: AGENT_ENGINE_URL is not set"))
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        assert world.heads()[job.id].state is State.HELD
        await worker.executor.give_up(0)
        world.engine = lambda job, attempt: Done()
        second = await worker_in(
            world, rules=Rules(kinds=frozenset({"inbound_turn"}), releases=frozenset({"no_engine"}))
        )
        await second.turn()
        assert world.rows()[job.id].outcome == "done"
        assert [attempt for _, _, attempt in world.calls] == [1, 1]

    play(story())


def command(action: str, number: int, target: Job | None, **more: Any) -> Command:
    return Command(
        id=uuid(70_000 + number), at_ms=START_MS, action=action, organization_id=ORGANIZATION,
        job_id=target.id if target else None, issued_by="test", **more,
    )  # fmt: skip


def test_pause_stops_starts_and_resume_loses_nothing() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        world.order(command("pause", 1, None))
        await worker.turn()
        world.give(job_of(1))
        await worker.turn()
        assert world.calls == []
        world.die({})
        second = await worker_in(world)
        await second.turn()
        assert world.calls == [], "the pause is in the changelog"
        world.order(command("resume", 2, None))
        await second.turn()
        assert len(world.calls) == 1

    play(story())


def test_events_follow_through_a_merge_and_then_a_cover() -> None:
    async def story() -> None:
        first, second, third, fourth = (job_of(n) for n in range(1, 5))
        failing_for = {second.id, third.id}

        def engine(job: Job, attempt: int) -> Answer | float:
            if job.id == first.id:
                return 5_000
            return Retry("http_503") if job.id in failing_for else Done()

        world = World(engine=engine)
        worker = await worker_in(world)
        for job in (first, second, third):  # the second merges into the third, which fails twice
            world.give(job)
            await worker.turn()
        await worker.live(START_MS + 17_000)
        world.give(fourth)
        await worker.live(START_MS + 20_000)
        rows = world.rows()
        assert rows[second.id].outcome == f"merged:{third.id}"
        assert rows[third.id].outcome == f"covered_by:{fourth.id}"
        place: dict[str, tuple[int, str | None]] = {}
        for one in world.outcomes():
            for event in one.events:
                assert event.seq > place.get(event.event_id, (0, None))[0], "each move counts"
                place[event.event_id] = event.seq, one.job_id
        moved = {event.event_id for job in (second, third) for event in job.events}
        assert {place[event_id][1] for event_id in moved} == {fourth.id}

    play(story())


def test_a_record_that_was_overtaken_by_run_now_starts_nothing_early() -> None:
    async def story() -> None:
        world = World(engine=failing)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.order(command("run_now", 1, job), key_of())
        await worker.turn()
        await worker.live(START_MS + 60_000)
        # the first retry's record comes after 10 s and must not start the third attempt, due after 20 s
        assert [at - START_MS for at, _, _ in world.calls] == [0, 0, 20_000, 60_000]

    play(story())


def test_a_cancelled_call_is_cut_short_and_the_job_failed() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 60_000)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.order(command("cancel", 1, job, reason="customer called"), key_of())
        await worker.turn(2)
        assert len(worker.calls) == 0
        row = world.rows()[job.id]
        assert (row.job_status, row.outcome) == ("failed", "cancelled:customer called")
        assert row.alert is None
        assert not worker.lanes.is_running(key_of())

    play(story())


def test_a_command_for_an_unknown_job_waits_for_it_a_day() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        job = job_of(1)
        world.order(command("cancel", 1, job), key_of())
        await worker.turn()
        world.give(job)
        await worker.turn()
        assert world.calls == []
        assert world.rows()[job.id].job_status == "failed"

    play(story())


def test_a_hold_of_a_running_job_takes_effect_when_it_fails() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Retry("http_500"))
        worker = await worker_in(world)
        job = job_of(1)
        world.engine = lambda job, attempt: 1_000
        world.give(job)
        await worker.turn()
        world.order(command("hold", 1, job, reason="look first"), key_of())
        await worker.live(START_MS + 2_000)
        assert world.rows()[job.id].outcome == "done", "an answer that is good wins"

    play(story())


def test_a_dead_job_is_requeued_under_its_own_id_with_fresh_attempts() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Dead("http_422"))
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        (letter,) = world.letters()
        world.engine = lambda job, attempt: Dead("http_422")
        again = command("requeue", 1, job, replay=START_MS, job=letter[1], replays=1)
        world.order(again, key_of())
        await worker.turn()
        row = world.rows()[job.id]
        assert row.job is not None and row.job.replay == START_MS
        second = world.letters()[1]
        assert dict(second[3] or ())["replays"] == b"1"
        assert second[1] == letter[1], "the bytes stay what they were"

    play(story())


def test_a_record_of_an_unknown_version_is_looked_at_for_an_hour_then_dead_with_its_bytes() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        value = b"\xc3\x01" + b"12345678" + b"a body of tomorrow"
        world.append("dispatch.jobs", key_of(), value)
        await worker.live(START_MS + 59 * 60_000, step_ms=10_000)
        assert world.letters() == [] and worker.executor.tally.postponed >= 58
        await worker.live(START_MS + 70 * 60_000, step_ms=10_000)
        (letter,) = world.letters()
        assert letter[1] == value and dict(letter[3] or ())["reason"] == b"unknown_schema"
        assert worker.executor.tally.read == worker.executor.tally.accounted

    play(story())


class Replaced(RuntimeError):
    """The group's refusal."""


def test_who_lost_its_partitions_calls_nothing_completes_nothing_and_fails_nothing_b166_b167_b182() -> None:
    """The fence is the lease's token: an answer that comes to a replaced worker goes nowhere."""

    async def story() -> None:
        world = World(engine=lambda job, attempt: 1_000)
        worker = await worker_in(world)
        job, other = job_of(1), job_of(2, contact=2)
        world.give(job)
        await worker.turn()
        told = len(world.outcomes())

        async def refuse() -> None:
            raise Replaced

        worker.fence = refuse
        world.give(other)
        with pytest.raises(Replaced):
            await worker.turn()
        world.now_ms += 2_000
        for _, until in worker.waits:
            until.set_result(None)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        with pytest.raises(Replaced):
            await worker.turn()
        assert len(world.outcomes()) == told, "nothing is told"
        assert [job_id for _, job_id, _ in world.calls] == [job.id], "nobody is called"

    play(story())


def test_no_clock_is_asked_when_the_next_job_is_due_the_lanes_know_b175_to_b179() -> None:
    """There is no poll loop: a record, an answer or the lanes' next time wakes the executor."""

    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        assert worker.lanes.next_due() is None
        world.give(job_of(1, run_after_ms=START_MS + 900))
        await worker.read()
        await worker.executor.step()
        assert await worker.executor.step() is False
        assert worker.lanes.next_due() == START_MS + 900
        world.now_ms += 900
        assert await worker.executor.step() is True
        assert len(world.calls) == 0 or world.calls[0][0] >= START_MS + 900

    play(story())
