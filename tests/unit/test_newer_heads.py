"""A job that a newer version's worker had in hand, under a worker of the version before: it waits as it is.

During a rolling upgrade partitions also move from new workers to old ones. What these can't read is in the
changelog already: there is no record to try again, and to end the process would stop all others' jobs.
"""

from __future__ import annotations

import asyncio

import pytest

from schemas import codec
from schemas.codec import HEADER_BYTES
from schemas.delayed import EVERY_MS, FOR_MS
from schemas.errors import UnknownSchema
from schemas.records import Job
from streams.contact_jobs import PAUSES
from streams.heads import State
from streams.newer_jobs import bury_what_is_over
from tests.unit.job_stories import command, play, worker_in
from tests.unit.job_worlds import START_MS, Worker, World, job_of, key_of, state_of

TOMORROW = codec.MAGIC + b"tomorrow"
ENDED = (State.DONE, State.FAILED, State.DEAD)


def of_tomorrow(worker: Worker, job: Job) -> None:
    """The job's head as a newer version would have written it."""
    jobs = worker.memory[key_of()]
    head = jobs.heads[job.id]
    head.job = TOMORROW + head.job[HEADER_BYTES:]
    worker.book.changed(key_of(), 0, jobs)


@pytest.fixture
def upgrade(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """What makes the next worker one of the newer version."""
    return monkeypatch


def learn(upgrade: pytest.MonkeyPatch) -> None:
    known = codec._JOB.readers[codec._JOB.alone]
    upgrade.setitem(codec._JOB.readers, TOMORROW, known)


async def in_hand(world: World, job: Job, upgrade: pytest.MonkeyPatch, state: State) -> None:
    """A worker of the newer version takes a job, leads it to a state, and goes."""
    with upgrade.context() as newer:
        learn(newer)
        worker = await worker_in(world)
        if state is State.HELD:
            world.order(command("hold", 9, job), key_of())
        if state is State.WAITING:
            world.order(command("pause", 9, None), PAUSES)
        world.give(job)
        await worker.turn(2)
        of_tomorrow(worker, job)
        assert state_of(worker, job) is state
        worker.book.flush()
        if state is not State.RUNNING:  # else it dies with its call
            await worker.executor.give_up(0)
        world.deliver()
        world.running.clear()
        if state is State.WAITING:
            world.order(command("resume", 8, None), PAUSES)


@pytest.mark.parametrize("state", [State.WAITING, State.RUNNING, State.HELD])
def test_it_waits_under_an_old_worker_that_goes_on_with_others_and_runs_under_a_new_one(
    upgrade: pytest.MonkeyPatch, state: State
) -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 3_600_000 if state is State.RUNNING and attempt == 1 else 0)
        job, later, others = job_of(1), job_of(2), job_of(3, contact=2)
        await in_hand(world, job, upgrade, state)
        begun = list(world.calls)
        world.engine = lambda job, attempt: 0

        old = await worker_in(world)
        world.give(later)
        world.give(others)
        await old.live(START_MS + 3 * EVERY_MS, step_ms=10_000)
        assert [call[1] for call in world.calls[len(begun) :]] == [others.id], "nobody else waits for it"
        assert state_of(old, job) is state and state_of(old, later) is State.WAITING
        with pytest.raises(UnknownSchema):
            old.memory[key_of()].heads[job.id].whole()
        await old.executor.give_up(0)
        world.deliver()

        learn(upgrade)
        new = await worker_in(world)
        if state is State.HELD:
            world.order(command("release", 10, job), key_of())
        await new.live(world.now_ms + 2 * EVERY_MS, step_ms=10_000)
        assert {state_of(new, one) for one in (job, later)} == {State.DONE}
        assert world.letters() == []

    play(story())


def test_an_order_to_it_waits_too(upgrade: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World()
        job = job_of(1)
        await in_hand(world, job, upgrade, State.WAITING)
        old = await worker_in(world)
        world.order(command("cancel", 11, job), key_of())
        await old.live(world.now_ms + 3 * EVERY_MS, step_ms=10_000)
        assert state_of(old, job) is State.WAITING and world.letters() == []
        await old.executor.give_up(0)
        world.deliver()
        learn(upgrade)
        new = await worker_in(world)
        new.book.lanes.withdraw(key_of())  # it shall not begin before the order is back
        await new.live(world.now_ms + 2 * EVERY_MS, step_ms=10_000)
        assert state_of(new, job) in ENDED
        assert new.executor.tally.refused == 0

    play(story())


def test_after_an_hour_without_anybody_newer_it_is_dead_with_its_bytes_and_the_contact_goes_on(
    upgrade: pytest.MonkeyPatch,
) -> None:
    async def story() -> None:
        world = World()
        job, later = job_of(1), job_of(2)
        await in_hand(world, job, upgrade, State.WAITING)
        old = await worker_in(world)
        value = old.memory[key_of()].heads[job.id].job
        world.give(later)

        async def look() -> None:
            await bury_what_is_over(old.book, old, lambda: world.now_ms, "pt-BR")
            await old.turn()

        await old.turn()
        world.now_ms += FOR_MS - 1
        await look()
        assert world.letters() == [] and world.calls == []
        world.now_ms += 1
        await look()
        (letter,) = world.letters()
        assert letter[:2] == (key_of(), value) and value.startswith(TOMORROW)
        told = dict(letter[3] or ())
        assert (told["reason"], told["job-id"]) == (b"unknown_schema", job.id.encode())
        assert told["kafka_dlt-original-topic"] == b"dispatch.jobs"
        assert [one.alert is not None for one in world.outcomes() if one.status == "dead"] == [True]
        assert [job_id for _, job_id, _ in world.calls] == [later.id]
        assert job.id not in world.heads(), "it isn't buried again by whoever comes next"
        await look()
        assert len(world.letters()) == 1

    play(story())


def test_partitions_that_go_while_it_is_buried_take_it_along(upgrade: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        world = World()
        job = job_of(1)
        await in_hand(world, job, upgrade, State.WAITING)
        old = await worker_in(world)
        world.now_ms += FOR_MS
        burying = asyncio.create_task(bury_what_is_over(old.book, old, lambda: world.now_ms, "pt-BR"))
        await asyncio.sleep(0)
        old.book.clear()
        await burying
        assert len(world.letters()) == 1 and job.id in world.heads(), "twice is harmless, to lose it isn't"

    play(story())
