"""Crashes at every step: every event ends in exactly one job, sent however often with the same content."""

from __future__ import annotations

import asyncio
import json
import random
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise, product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams import topics
from streams.decide import Decision, Emptied, Fail, LookAgain, Stop, WaitForMedia
from streams.question import DatabaseAway, Question
from streams.windows import WindowRule
from tests.unit.builders import event, row, uid
from tests.unit.worlds import CHANGELOG, Crash, Decide, Record, Worker, World, enqueue

CONTACTS = ("ana", "bia")


def write(
    world: World,
    name: str,
    contact: str = "ana",
    conversation: str = "c1",
    at: int | None = None,
    replay: int = 0,
) -> None:
    """The publisher (or a replay) appends an event, committed at `at` (default: now)."""
    one = event(name, contact=contact, conversation=conversation)
    payload = {
        "conversation_id": one.conversation_id,
        "contact_id": one.contact_id,
        "channel_session_id": one.session_id,
        "inbound_message_id": one.message_id,
    }
    value = json.dumps(row(name, payload=json.dumps(payload))).encode()
    time_ms = world.now_ms if at is None else at
    headers = [("cdc_source_ts_ms", str(time_ms).encode())]
    if replay:
        headers.append(("replay", str(replay).encode()))
    world.log.append(Record(one.key, value, len(world.log), time_ms, headers=headers))


async def settle(world: World, worker: Worker) -> None:
    """Let everything come to its end, by time and by log."""
    for _ in range(200):
        await worker.collect(1_000)
        await worker.commit()
        while await worker.flusher.step():
            pass
        if worker.position == len(world.log) and not any(one.windows for one in worker.memory.values()):
            await asyncio.sleep(0)
            return
        world.now_ms += 1_000
    raise AssertionError("windows stay open")


TOPICS = (CHANGELOG, topics.JOBS, topics.OUTCOMES)
keeps = st.fixed_dictionaries({topic: st.integers(0, 2) for topic in TOPICS})
actions = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(CONTACTS), st.sampled_from(["c1", "c2"])),
        st.tuples(st.just("pass"), st.integers(0, 6_000)),
        st.tuples(st.just("repeat"), st.integers(0, 40)),
        st.tuples(st.just("late"), st.sampled_from(CONTACTS), st.integers(0, 20_000)),
        st.tuples(st.just("collect"), st.integers(1, 4)),
        st.tuples(st.just("commit")),
        st.tuples(st.just("step")),
        st.tuples(st.just("crash"), st.integers(1, 12), keeps),
    ),
    max_size=40,
)


async def live(world: World, script: list[tuple]) -> None:
    worker, names = Worker(world), 0
    keep: dict[str, int] = {}
    for what, *arguments in script:
        try:
            if what == "write":
                contact, conversation = arguments
                write(world, f"e{names}", contact, f"{conversation} of {contact}")
                names += 1
            elif what == "late":  # committed a while ago, published only now
                contact, behind = arguments
                write(world, f"e{names}", contact, f"c1 of {contact}", at=world.now_ms - behind)
                names += 1
            elif what == "repeat":  # the publisher sends a record again
                if world.log:
                    again = world.log[arguments[0] % len(world.log)]
                    world.log.append(replace(again, offset=len(world.log)))
            elif what == "pass":
                world.now_ms += arguments[0]
            elif what == "collect":
                await worker.collect(arguments[0])
            elif what == "commit":
                await worker.commit()
            elif what == "step":
                await worker.flusher.step()
            elif what == "jobs_run_by":
                world.run_by = arguments[0]
            else:
                world.crash_at, keep = world.operations + arguments[0], arguments[1]
        except Crash:
            world.die(keep)
            worker = Worker(world)
    world.crash_at = None
    await settle(world, worker)


def check(world: World) -> None:
    """Nothing lost, no effect doubled, nothing sent unfenced, nothing early."""
    content: dict[str, object] = {}
    homes: dict[str, set[str]] = defaultdict(set)
    for job in world.jobs():
        assert content.setdefault(job.id, job) == job, "a job was sent with another content"
        for member in job.events:
            homes[member.event_id].add(job.id)
    for record in world.log:
        event_id = json.loads(record.value or b"{}")["id"]
        assert len(homes[event_id]) == 1, f"{event_id} is in {len(homes[event_id])} jobs"
    told = {one.event_id for outcome in world.outcomes() for one in outcome.events}
    assert told == set(homes), "every event has its outcome"
    times = {json.loads(record.value or b"{}")["id"]: record.timestamp for record in world.log}
    for job in content.values():
        assert job.created_at_ms >= min(times[one.event_id] for one in job.events) + world.rule.length_ms
    assert world.sent_without_fence == 0


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(actions, st.sampled_from([WindowRule(8_000), WindowRule(0), WindowRule(4_000, "sliding", 9_000)]))
def test_crashes_at_any_step_lose_nothing_and_double_no_effect(script: list[tuple], rule: WindowRule) -> None:
    world = World(rule=rule)
    asyncio.run(live(world, script))
    check(world)


def fate(dice: random.Random) -> Decide:
    """Decides anything, another thing each time it is asked, as a database that changes meanwhile does."""

    def decide(question: Question) -> Decision:
        first = question.events[0].event_id
        if dice.random() < 0.1:
            raise DatabaseAway("gone for a moment")
        return dice.choice(
            [
                enqueue(question),
                enqueue(question),
                Stop("no_published_agent"),
                Stop("superseded_by_newer_inbound"),
                WaitForMedia(recheck_in_ms=4_000),
                Fail(error_class="contact_missing", message="no such contact"),
                LookAgain(in_ms=2_000, error_class="sqlstate_57014"),
                Emptied(deduplicated=tuple((one.event_id, None) for one in question.events)),
                Stop("org_not_operating", deduplicated=((first, None),))
                if len(question.events) > 1
                else enqueue(question),
            ]
        )

    return decide


@pytest.mark.thorough
@settings(max_examples=200, deadline=None)
@given(
    actions, st.integers(0, 2**32), st.sampled_from([WindowRule(8_000), WindowRule(4_000, "sliding", 9_000)])
)
def test_whatever_is_decided_every_event_ends_in_exactly_one_place(
    script: list[tuple], seed: int, rule: WindowRule
) -> None:
    world = World(rule=rule, decide=fate(random.Random(seed)))
    asyncio.run(live(world, script))
    ends: dict[str, set[tuple]] = defaultdict(set)
    seqs: dict[str, list[int]] = defaultdict(list)
    for outcome in world.outcomes():
        for one in outcome.events:
            seqs[one.event_id].append(one.seq)
            if outcome.status != "pending":
                ends[one.event_id].add((outcome.status, outcome.outcome, outcome.job_id, outcome.at_ms, one))
    in_jobs = {one.event_id: job.id for job in world.jobs() for one in job.events}
    letters = {json.loads(value or b"{}")["id"] for _, value, _, _ in world.durable.get(topics.DEAD, [])}
    for record in world.log:
        event_id = json.loads(record.value or b"{}")["id"]
        assert len(ends[event_id]) == 1, "one end, told with the same words however often"
        ((status, outcome, job, _, last),) = ends[event_id]
        assert (in_jobs.get(event_id) == job) and ((outcome == "job") == (job is not None))
        assert (event_id in letters) == (status == "dead")
        assert last.seq == max(seqs[event_id]), "nothing is told after the end"
    assert world.sent_without_fence == 0


@pytest.mark.thorough
def test_every_single_crash_point_of_one_burst() -> None:  # BR-02
    for point in range(1, 26):
        for kept in product((0, 1, 2), repeat=3):
            keep = dict(zip(TOPICS, kept, strict=True))
            world = World()
            burst = [("write", "ana", "c1")] * 3
            rest = [("commit",), ("step",), ("pass", 9_000), ("step",), ("collect", 5), ("step",)]
            asyncio.run(live(world, [*burst, ("crash", point, keep), ("collect", 5), *rest]))
            check(world)
            assert len({job.id for job in world.jobs()}) == 1, f"crash at {point}, {keep} sends kept"


@pytest.mark.thorough
def test_who_runs_a_job_is_fixed_when_it_is_made_whatever_the_setting_says_after_a_crash() -> None:
    told = set()
    for point in range(1, 26):
        for kept in product((0, 2), repeat=3):
            world = World(run_by="table")
            crash = ("crash", point, dict(zip(TOPICS, kept, strict=True)))
            rest = [("commit",), ("step",), ("pass", 9_000), ("step",), ("collect", 5), ("step",)]
            script = [("write", "ana", "c1"), crash, ("jobs_run_by", "lanes"), ("collect", 5), *rest]
            asyncio.run(live(world, script))
            check(world)
            jobs = [*world.jobs(), *(outcome.job for outcome in world.outcomes() if outcome.job)]
            assert len({job.run_by for job in jobs}) == 1
            told.add(jobs[0].run_by)
    assert told == {"table", "lanes"}, "the crash came before the decision in some, after it in others"


def run(world: World, *script: tuple) -> None:
    asyncio.run(live(world, list(script)))


def test_five_bubbles_in_ten_seconds_are_one_job_in_order() -> None:  # BR-27
    world = World(rule=WindowRule(12_000))
    run(world, *[("write", "ana", "c1"), ("pass", 2_000), ("collect", 9)] * 5)
    (job,) = world.jobs()
    assert [one.event_id for one in job.events] == [uid(f"e{n}") for n in range(5)]
    payload = json.loads(job.payload)
    assert payload["inbound_message_id"] == uid("message of e4")
    assert payload["crm_event_id"] == job.source_event_id == uid("e0")
    (outcome,) = world.outcomes()
    assert (outcome.status, outcome.outcome, outcome.job_id) == ("done", "job", job.id)
    assert {one.attempts for one in outcome.events} == {1}
    assert outcome.job == job and job.seq > max(one.seq for one in outcome.events)


def test_a_message_that_comes_while_its_window_is_decided_opens_the_next() -> None:  # BR-24
    world = World()

    async def scenario() -> None:
        worker = Worker(world)
        write(world, "e0")
        await worker.collect(1)
        world.now_ms += 8_000
        entered, go_on = asyncio.Event(), asyncio.Event()
        decide = worker.decide

        async def slow(questions: list[Question]) -> list[Decision]:
            entered.set()
            await go_on.wait()
            return await decide(questions)

        worker.flusher._decider.decide = slow  # type: ignore[method-assign]
        step = asyncio.create_task(worker.flusher.step())
        await entered.wait()
        write(world, "e1", at=world.now_ms - 100)
        await worker.collect(1)
        go_on.set()
        await step
        worker.flusher._decider.decide = decide  # type: ignore[method-assign]
        await settle(world, worker)

    asyncio.run(scenario())
    assert [[one.event_id for one in job.events] for job in world.jobs()] == [[uid("e0")], [uid("e1")]]


def test_an_outage_of_the_database_spends_nothing() -> None:
    away = iter([True] * 4)

    def decide(question: Question) -> Decision:
        if next(away, False):
            raise DatabaseAway("no connection")
        return enqueue(question)

    world = World(decide=decide)
    run(world, ("write", "ana", "c1"), ("collect", 1))
    (outcome,) = world.outcomes()
    assert outcome.events[0].attempts == 1


def test_five_failures_are_a_death_with_the_original_bytes() -> None:  # b115, b116
    world = World(decide=lambda question: Fail(error_class="contact_missing", message="no such contact"))
    run(world, ("write", "ana", "c1"), ("collect", 1))
    assert [(one.status, one.events[0].attempts, one.events[0].seq) for one in world.outcomes()] == [
        ("pending", 1, 1),
        ("pending", 2, 2),
        ("pending", 3, 3),
        ("pending", 4, 4),
        ("dead", 5, 5),
    ]
    last = world.outcomes()[-1]
    assert last.alert is not None and last.alert.kind == "event_dead"
    assert [value for _, value, _, _ in world.durable[topics.DEAD]] == [world.log[0].value]
    waits = [one.next_attempt_at_ms - one.at_ms for one in world.outcomes()[:-1] if one.next_attempt_at_ms]
    assert waits == [30_000] * 4


def test_media_wait_runs_inside_the_window_and_takes_events() -> None:  # b074, b085
    looks = iter([WaitForMedia(recheck_in_ms=4_000), WaitForMedia(recheck_in_ms=4_000)])
    world = World(decide=lambda question: next(looks, None) or enqueue(question))
    run(
        world,
        ("write", "ana", "c1"),
        ("collect", 1),
        ("pass", 8_001),
        ("step",),
        ("write", "ana", "c1"),
        ("collect", 1),
        ("crash", 1, 0),
    )
    (job,) = world.jobs()
    assert len(job.events) == 2 and job.created_at_ms - world.log[0].timestamp == 16_001


def test_events_with_an_outcome_leave_the_window_and_keep_their_job() -> None:  # stop 0, b110
    def decide(question: Question) -> Decision:
        if len(question.events) == 1:
            return Emptied(deduplicated=((question.events[0].event_id, "job-1"),))
        return Stop("no_published_agent", deduplicated=((question.events[0].event_id, None),))

    world = World(decide=decide)
    run(world, ("write", "ana", "c1"), ("write", "bia", "c1"), ("write", "bia", "c1"), ("collect", 3))
    assert not world.jobs()
    told = sorted((one.outcome, len(one.events)) for one in world.outcomes())
    assert told == [("deduplicated", 1), ("deduplicated", 1), ("no_published_agent", 1)]


def test_a_replayed_event_is_decided_only_when_the_sink_has_told_its_first_life() -> None:
    world = World(rule=WindowRule(1_000))

    async def scenario() -> None:
        worker = Worker(world)
        write(world, "e0")
        await settle(world, worker)
        world.decide = lambda question: Emptied(deduplicated=((question.events[0].event_id, "job"),))
        write(world, "e0", replay=1_764_000_000_000)
        await worker.collect(1)
        for _ in range(5):
            world.now_ms += 5_000
            assert not await worker.flusher.step(), "the sink has not written what came of it"
        worker = Worker(world)  # the wait survives a crash
        await worker.collect(1)
        world.now_ms += 5_000
        assert not await worker.flusher.step()
        world.written = len(world.outcomes())
        assert await worker.flusher.step()

    asyncio.run(scenario())
    assert len(world.jobs()) == 1
    assert [one.outcome for one in world.outcomes()] == ["job", "deduplicated"]


def test_a_window_that_cannot_be_read_in_time_is_asked_again_only_after_its_wait() -> None:
    for state in ("open", "media", "retry"):
        asked: list[int] = []
        first = {
            "open": LookAgain(in_ms=2_000, error_class="sqlstate_57014"),
            "media": WaitForMedia(recheck_in_ms=4_000),
            "retry": Fail(error_class="contact_missing", message="no such contact"),
        }[state]

        def decide(question: Question, first: Decision = first, asked: list[int] = asked) -> Decision:
            asked.append(question.now_ms)
            return first if len(asked) == 1 else LookAgain(in_ms=2_000, error_class="sqlstate_57014")

        world = World(decide=decide)

        async def scenario(world: World = world) -> None:
            worker = Worker(world)
            write(world, "e0")
            await worker.collect(1)
            for _ in range(100):
                world.now_ms += 1_000
                for _ in range(5):
                    await worker.flusher.step()

        asyncio.run(scenario())
        gaps = [later - sooner for sooner, later in pairwise(asked[1:])]
        assert gaps and set(gaps) == {2_000}, state
