"""The executor: one job a contact at a time, attempts counted, nothing lost when a worker dies."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from schemas.codec import decode_job
from schemas.records import Job
from streams.handlers.answers import Answer, Cancelled, Dead, Done, Hold, Retry
from streams.heads import State
from tests.unit.job_stories import failing, play, statuses, worker_in
from tests.unit.job_worlds import START_MS, World, job_of, key_of, state_of, uuid


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
