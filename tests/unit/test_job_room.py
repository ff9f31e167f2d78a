"""One contact's record: whatever comes for one person, it can be written, and nothing is lost."""

from __future__ import annotations

import random
from collections import Counter

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ops.reasons import REASONS
from schemas.codec import encode_job
from schemas.dead import Header
from schemas.records import Command, EventRef, Job
from schemas.topic_names import JOBS
from streams.contact_jobs import ContactJobs, encode_jobs
from streams.handlers.answers import Answer, Done, Retry
from streams.heads import Head, Origin, State
from streams.job_room import FULL, MOST_BYTES, MOST_JOB_BYTES, TOO_LARGE, Room
from streams.merging import MOST_EVENTS, merge, merge_waiting
from tests.unit.job_stories import command, play, worker_in
from tests.unit.job_worlds import CHANGELOG, START_MS, World, job_of, key_of, uuid
from tests.unit.test_execute_crashes import Story, actions

KAFKA_TAKES = 16 * 1024 * 1024
SMALL = Room(waiting=5, size=8_000, job_size=3_000, patience_s=0)
TENTH = Room(waiting=10**9, size=MOST_BYTES // 10, job_size=MOST_JOB_BYTES // 10, patience_s=0)
"""Of the usual one, so that the test is ten times as fast."""


def padded(number: int, size: int, *, again: bool = False, **more: object) -> Job:
    """A turn whose payload has so many bytes more; `again`: made by `replay --again`, so it stays alone."""
    job = job_of(number, **more)
    extra = f', "more": "{"x" * size}"' + (f', "replay_of": "{uuid(1)}"' if again else "")
    return msgspec.structs.replace(job, payload=job.payload[:-1] + extra + "}")


def test_both_reasons_are_told_in_words() -> None:
    assert {FULL, TOO_LARGE} <= REASONS.keys()


def sizes(world: World) -> list[int]:
    """Of every record that the changelog was given."""
    return [len(value) for _, value, _, _ in world.durable.get(CHANGELOG, []) if value is not None]


def test_turns_that_wait_become_one_before_they_pile_up_and_all_are_answered() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 1_000)
        worker = await worker_in(world, room=Room(waiting=20))
        jobs = [job_of(n) for n in range(1, 400)]
        world.give(jobs[0])
        await worker.turn()
        for job in jobs[1:]:
            world.give(job)
        await worker.read()
        waiting = [head for head in worker.memory[key_of()].heads.values() if head.state is State.WAITING]
        assert len(waiting) <= 20
        await worker.live(START_MS + 3_000)
        assert len(world.calls) == 2
        rows = world.rows()
        assert {row.job_status for row in rows.values()} == {"done"} and len(rows) == 399
        answered = rows[jobs[-1].id].job
        assert answered is not None and len(answered.events) == 398
        assert [one.event_id for one in answered.events] == [uuid(100_000 + n) for n in range(2, 400)]
        assert worker.executor.tally.read == worker.executor.tally.accounted

    play(story())


def test_a_turn_that_nothing_was_tried_of_is_merged_only_with_its_own_conversation() -> None:
    jobs = ContactJobs()
    for number in range(1, 13):
        job = padded(number, 0, again=number % 4 == 0, conversation=1 + number % 3)
        jobs.heads[job.id] = head = Head(State.WAITING)
        jobs.seat(head, job, encode_job(job), Origin(JOBS, 0, number, START_MS))
    jobs.heads[job_of(1).id].attempt = 1
    before = {job_id: head.conversation_id for job_id, head in jobs.heads.items()}
    merge_waiting(jobs, START_MS)
    waiting = [before[job_id] for job_id, _ in jobs.waiting()]
    alone = [job_of(n).id for n in (1, 4, 8, 12)]
    assert all(jobs.heads[job_id].state is State.WAITING for job_id in alone)
    assert len(waiting) - len(alone) == 3, "one of each conversation"


def test_a_session_that_does_not_work_is_told_after_an_hour_though_turns_merge_meanwhile() -> None:
    async def story() -> None:
        world = World()
        world.asleep.add(uuid(30_000))
        worker = await worker_in(world, room=Room(waiting=2))
        for number in range(1, 12):  # two that wait at a time become one
            world.give(job_of(2 * number, run_after_ms=world.now_ms))
            world.give(job_of(2 * number + 1, run_after_ms=world.now_ms))
            await worker.live(world.now_ms + 400_000, step_ms=20_000)
        told = [one for one in world.outcomes() if one.alert is not None]
        assert told, "each turn alone has waited for less than the hour since the first one came"
        assert told[0].at_ms - START_MS < 3_600_000 + 1_200_000
        world.asleep.clear()
        await worker.live(world.now_ms + 700_000, step_ms=20_000)
        (head,) = [one for one in worker.memory[key_of()].heads.values() if one.outcome == "done"]
        assert (head.looks, head.not_working_since_ms, head.alarmed) == (0, 0, False)

    play(story())


@pytest.mark.thorough
def test_so_many_events_are_one_turn_and_the_next_ones_another_in_order() -> None:
    jobs = ContactJobs()
    for number in range(1, 8):
        events = tuple(EventRef(uuid(number * 10_000 + n)) for n in range(MOST_EVENTS // 3))
        job = job_of(number, events=events)
        jobs.heads[job.id] = head = Head(State.WAITING)
        jobs.seat(head, job, encode_job(job), Origin(JOBS, 0, number, START_MS))
    survivor, taken = merge(jobs, job_of(1).id, START_MS)
    assert (survivor, taken) == (job_of(3).id, 2)
    merge_waiting(jobs, START_MS)
    assert [job_id for job_id, _ in jobs.waiting()] == [job_of(n).id for n in (3, 6, 7)]
    assert all(len(head.whole().events) <= MOST_EVENTS for _, head in jobs.waiting())


@pytest.mark.parametrize(
    ("job", "headers"),
    [
        (padded(1, MOST_JOB_BYTES), ()),
        (padded(1, 3 * MOST_JOB_BYTES), ()),
        (job_of(1), [("traceparent", b"x" * MOST_JOB_BYTES)]),
    ],
)
def test_a_job_too_large_to_be_kept_is_dead_with_its_bytes(job: Job, headers: list[Header]) -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        world.append(JOBS, key_of(), encode_job(job), headers)
        world.give(job_of(2))
        await worker.turn()
        (letter,) = world.letters()
        assert letter[:2] == (key_of(), encode_job(job))
        assert dict(letter[3] or ())["reason"] == TOO_LARGE.encode()
        row = world.rows()[job.id]
        assert (row.job_status, row.outcome) == ("dead", "dead:job_too_large")
        assert row.alert is not None and row.alert.kind == "job_dead"
        assert world.rows()[job_of(2).id].job_status == "done"
        assert all(len(value or b"") < 4_000_000 for _, value, _, _ in world.durable["dispatch.outcomes"])
        assert worker.executor.tally.refused_jobs == 1
        assert worker.executor.tally.read == worker.executor.tally.accounted

    play(story())


def test_a_contact_whose_record_is_full_gets_an_alert_and_a_letter_for_each_further_job() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 3_600_000)
        worker = await worker_in(world, room=TENTH)
        size = 60_000
        jobs = [padded(n, size, again=True) for n in range(1, 25)]
        for job in jobs:
            world.give(job)
            await worker.turn()
        letters = world.letters()
        assert 5 < len(letters) < 24
        assert {dict(headers or ())["reason"] for _, _, _, headers in letters} == {FULL.encode()}
        assert max(sizes(world)) < KAFKA_TAKES // 10
        kept = len(jobs) - len(letters)
        assert [state for head in worker.memory[key_of()].heads.values() if (state := head.state)] == [
            State.RUNNING, *[State.WAITING] * (kept - 1),
        ]  # fmt: skip
        # each of them may be held and let go again and again, and others' jobs run
        for n, job in enumerate(jobs):
            for m, action in enumerate(("hold", "release", "run_now", "hold", "run_now")):
                world.order(command(action, 10 * n + m, job), key_of())
        world.give(job_of(90, contact=9))
        await worker.turn(3)
        assert max(sizes(world)) < KAFKA_TAKES // 10
        assert (uuid(10_009) in {one.contact_id for one in world.outcomes()}) is True
        refused = [one for one in world.outcomes() if (one.outcome or "").startswith("refused:")]
        assert any(b"too many jobs of this contact" in (one.facts or "").encode() for one in refused)
        for n, job in enumerate(jobs):
            world.order(command("cancel", 1_000 + n, job), key_of())
        await worker.turn(3)
        assert max(sizes(world)) < KAFKA_TAKES // 10
        states = Counter(head.state for head in worker.memory[key_of()].heads.values())
        assert states[State.FAILED] >= kept, "what makes a record smaller is always carried out"

    play(story())


@pytest.mark.thorough
def test_a_full_record_of_turns_that_all_merge_or_all_die_can_be_written_too() -> None:
    async def story(answer: Answer) -> None:
        world = World(engine=lambda job, attempt: answer)
        world.asleep.add(uuid(30_000))
        worker = await worker_in(world, room=TENTH)
        for n in range(1, 600):
            world.give(padded(n, 1_000))
        await worker.read()
        assert len(encode_jobs(worker.memory[key_of()])) > 0.8 * TENTH.size
        world.asleep.clear()
        await worker.turn(2)
        await worker.live(START_MS + 300_000, step_ms=20_000)
        assert max(sizes(world)) < KAFKA_TAKES // 10
        assert not any(head.unsent for head in world.heads().values())

    play(story(Done()))
    play(story(Retry("http_500")))


def test_orders_with_long_names_or_keys_are_dead_letters_and_reasons_are_cut() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        job = job_of(1)
        long = "x" * 2_000
        world.order(command("hold", 1, job, reason="y" * 3_000_000), key_of())
        world.order(dataclass_of(command("hold", 2, job), job_id=long), key_of())
        world.order(dataclass_of(command("hold", 3, job), id=long), key_of())
        world.order(command("hold", 4, job), long.encode())
        world.append(JOBS, long.encode(), encode_job(job))
        await worker.turn()
        assert len(world.letters()) == 4
        (head,) = worker.memory[key_of()].heads.values()
        assert head.hold is not None and len(head.hold) <= 300
        assert max(sizes(world)) < 2_000

    play(story())


def dataclass_of(one: Command, **fields: object) -> Command:
    return msgspec.structs.replace(one, **fields)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(actions, min_size=5, max_size=20),
    st.lists(st.sampled_from([Done(), Retry("http_500"), 5_000]), min_size=1, max_size=3),
    st.integers(0, 2**16),
)
def test_no_record_is_above_twice_its_limit_and_every_job_ends_once(
    script: list[tuple[object, ...]], choices: list[Answer | int], seed: int
) -> None:
    dice = random.Random(seed)
    world = World(engine=lambda job, attempt: dice.choice(choices))
    story = Story(world, SMALL)
    give = world.give

    def larger(job: Job, key: bytes | None = None) -> None:
        size = grown.setdefault(job.id, dice.choice([0, 500, 2_500]))
        extra = padded(1, size, again=seed % 2 == 0).payload[len(job_of(1).payload) - 1 :]
        give(msgspec.structs.replace(job, payload=job.payload[:-1] + extra), key)

    grown: dict[str, int] = {}
    world.give = larger  # type: ignore[method-assign]  # the story's jobs, made larger
    play(story.play(script))
    assert max(sizes(world), default=0) <= 2 * SMALL.size + 4 * SMALL.job_size
    rows, heads = world.rows(), world.heads()
    letters = Counter(dict(headers or ())["job-id"].decode() for _, _, _, headers in world.letters())
    for job, _ in story.given.values():
        row = rows[job.id]
        assert row.job_status in ("done", "failed", "dead")
        assert (row.job_status == "dead") == (job.id in letters) or heads[job.id].state is State.DONE
        # of one that was refused there is no head: an order for it waits, as for any that is unknown
        assert job.id not in heads or heads[job.id].state.ended or heads[job.id].state is State.AWAITED
    assert story.unaccounted == 0
