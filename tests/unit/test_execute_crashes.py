"""Whatever is answered, ordered and killed: every job ends once, and no contact has two at a time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from schemas.codec import encode_command
from schemas.records import Command, Job
from streams.handlers.answers import Answer, Cancelled, Dead, Done, Hold, Retry
from streams.heads import State
from streams.job_room import Room
from tests.unit.job_worlds import ORGANIZATION, START_MS, Record, Worker, World, job_of, key_of, uuid
from tests.unit.worlds import Crash

ENDED = {"done", "failed", "dead"}

answers = st.sampled_from(
    [
        Done(), Done(), Done(), Retry("http_500"), Retry("http_429", after_ms=2_000),
        Retry("http_425", after_ms=1_000, spends=False, kind="rate"),
        Cancelled("not_wanted"), Dead("http_422"), Hold("no_credentials"), 1_500, 40_000,
    ]
)  # fmt: skip
actions = st.one_of(
    st.tuples(st.just("give"), st.integers(1, 8), st.integers(1, 2), st.integers(1, 2)),
    st.tuples(st.just("again"), st.integers(1, 8)),
    st.tuples(
        st.just("order"), st.integers(1, 8), st.sampled_from(["cancel", "hold", "release", "run_now"])
    ),
    st.tuples(st.just("wait"), st.sampled_from([100, 3_000, 30_000])),
    st.tuples(st.just("crash"), st.integers(1, 40), st.integers(0, 2)),
    st.tuples(st.just("hand over"), st.sampled_from([0, 0])),
    st.tuples(st.just("rewind"),),
)  # fmt: skip


class Story:
    """Plays actions in a world, through as many lives of the worker as it takes."""

    def __init__(self, world: World, room: Room | None = None) -> None:
        self.world = world
        self.room = room
        self.given: dict[int, tuple[Job, bytes]] = {}
        self.orders = 0
        self.worker: Worker | None = None
        self.unaccounted = 0

    async def life(self) -> Worker:
        if self.worker is None:
            self.worker = Worker(self.world, concurrency=2, room=self.room)
            await self.worker.begin()
        return self.worker

    async def crashed(self, keep: int) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            tasks = list(worker.calls._tasks.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.world.die({"jobs changelog": keep, "dispatch.outcomes": keep, "dispatch.dead": keep})
        self.world.pass_time(1_500)

    async def act(self, action: tuple[object, ...]) -> None:
        world = self.world
        match action:
            case ("give", int(number), int(contact), int(conversation)):
                if number not in self.given:
                    job = job_of(number, contact, conversation=conversation)
                    self.given[number] = job, key_of(contact)
                    world.give(job)
            case ("again", int(number)) if number in self.given:
                world.give(self.given[number][0])
            case ("order", int(number), str(what)) if number in self.given:
                self.orders += 1
                job, key = self.given[number]
                world.order(
                    Command(id=uuid(self.orders), at_ms=world.now_ms, action=what, job_id=job.id,
                            organization_id=ORGANIZATION), key,
                )  # fmt: skip
            case ("crash", int(steps), int(keep)):
                world.crash_at = world.operations + steps
                try:
                    await (await self.life()).live(world.now_ms + 5_000, step_ms=1_000)
                except Crash:
                    await self.crashed(keep)
                world.crash_at = None
                return
            case ("hand over", int(grace)):
                worker = await self.life()
                await worker.executor.give_up(grace)
                await asyncio.sleep(0)
                self.worker = None
            case ("rewind",):
                await self.crashed(0)
                world.committed = dict.fromkeys(world.committed, 0)
            case ("wait", int(ms)):
                await (await self.life()).live(world.now_ms + ms, step_ms=max(ms // 10, 50))
                return
        worker = await self.life()
        await worker.turn()
        tally = worker.executor.tally
        self.unaccounted += tally.read - tally.accounted

    async def play(self, script: list[tuple[object, ...]]) -> None:
        for action in script:
            await self.act(action)
        # the end: the engine is willing, held jobs are released, and time passes
        self.world.engine = lambda job, attempt: Done()
        for number, (job, key) in self.given.items():
            command = Command(id=uuid(900 + number), at_ms=self.world.now_ms, action="release", job_id=job.id)
            self.world.order(command, key)
        worker = await self.life()
        await worker.live(self.world.now_ms + 300_000, step_ms=10_000)
        await worker.executor.give_up(0)
        await asyncio.sleep(0)


def engine_of(seed: int, choices: list[Answer | int]) -> tuple[World, Counter[str]]:
    dice = random.Random(seed)
    done: Counter[str] = Counter()

    def engine(job: Job, attempt: int) -> Answer | float:
        answer = dice.choice(choices)
        done[job.id] += isinstance(answer, Done)
        return answer

    return World(engine=engine), done


@pytest.mark.thorough
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(actions, min_size=1, max_size=14),
    st.lists(answers, min_size=1, max_size=4),
    st.integers(0, 2**16),
)
def test_every_job_ends_once_whatever_happens_br_38(
    script: list[tuple[object, ...]], choices: list[Answer | int], seed: int
) -> None:
    world, _ = engine_of(seed, choices)
    story = Story(world)
    asyncio.run(story.play(script))
    heads, rows = world.heads(), world.rows()
    for job, _ in story.given.values():
        head, row = heads[job.id], rows[job.id]
        assert head.state.ended, (job.id, head.state)
        assert row.job_status in ENDED and row.job_status == head.state
        assert not head.unsent, "everything that was named was sent"
    assert world.together <= 1, "one job of a contact at a time"
    assert max((attempt for _, _, attempt in world.calls), default=0) <= 5
    assert world.unfenced == 0
    assert story.unaccounted == 0, "every record that was read has its place"
    # a letter per death, an outcome per death; sent twice is told once by its place in the order
    dead = {job_id for job_id, head in heads.items() if head.state is State.DEAD}
    assert {dict(headers or ())["job-id"].decode() for _, _, _, headers in world.letters()} == dead


@pytest.mark.thorough
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(actions, min_size=1, max_size=12), st.integers(0, 2**16))
def test_a_job_whose_answer_is_durable_is_not_called_again(
    script: list[tuple[object, ...]], seed: int
) -> None:
    world = World(engine=lambda job, attempt: Done())
    story = Story(world)
    asyncio.run(story.play(script))
    attempts = Counter((job_id, attempt) for _, job_id, attempt in world.calls)
    # the same attempt number twice only where a graceful stop gave it back, which no answer of `Done` allows
    assert all(count == 1 for count in attempts.values())


@pytest.mark.thorough
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(actions, min_size=1, max_size=10), st.lists(answers, min_size=1, max_size=3), st.integers(0, 99)
)
def test_seq_rises_with_every_transition_and_events_follow_their_job(
    script: list[tuple[object, ...]], choices: list[Answer | int], seed: int
) -> None:
    world, _ = engine_of(seed, choices)
    story = Story(world)
    asyncio.run(story.play(script))
    told: dict[tuple[str, int, int], set[str | None]] = {}
    for one in world.outcomes():
        if one.job is not None:
            told.setdefault((one.job.id, one.job.replay, one.job.seq), set()).add(one.job_status)
    assert all(len(states) == 1 for states in told.values()), "one (replay, seq), one meaning"
    # where an event's job is, by the events' own order
    place: dict[str, tuple[int, str | None]] = {
        event.event_id: (1, job.id) for job, _ in story.given.values() for event in job.events
    }
    for one in world.outcomes():
        for event in one.events:
            if event.seq > place[event.event_id][0]:
                place[event.event_id] = event.seq, one.job_id
    rows = world.rows()
    for event_id, (_, job_id) in place.items():
        row = rows[job_id or ""]
        assert not (row.outcome or "").startswith(("merged:", "covered_by:")), event_id


@pytest.mark.thorough
def test_cancel_raced_against_completion_a_thousand_times_ends_one_way_everywhere() -> None:
    async def race(delay: int, answers_after: int) -> str:
        async def engine_answer() -> None:
            for _ in range(answers_after):
                await asyncio.sleep(0)

        world = World(engine=lambda job, attempt: Done())
        worker = Worker(world)
        run = worker.run

        async def slow(job: Job, attempt: int, headers: object) -> Answer:
            await engine_answer()
            return await run(job, attempt, ())

        worker.run = slow
        await worker.begin()
        job = job_of(1)
        world.give(job)
        await worker.read()
        cancel = Command(id=uuid(1), at_ms=START_MS, action="cancel", job_id=job.id)
        running = asyncio.ensure_future(worker.turn(4))
        for _ in range(delay):
            await asyncio.sleep(0)
        await worker.intake.commands([Record(key_of(), encode_command(cancel), 0, START_MS)], 0)
        await running
        await worker.turn(4)
        row, head = world.rows()[job.id], worker.memory[key_of()].heads[job.id]
        assert row.job_status == head.state and row.job_status in ("done", "failed")
        ends = {one.outcome for one in world.outcomes(job.id) if one.job_status in ENDED}
        assert len(ends) == 1 and not worker.lanes.running
        return str(row.job_status)

    async def races() -> Counter[str]:
        return Counter([await race(delay, after) for delay in range(40) for after in range(25)])

    ended = asyncio.run(races())
    assert ended.total() == 1_000 and ended["done"] and ended["failed"], "both happen"
