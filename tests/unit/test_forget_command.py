"""The order to forget a contact: what its ended jobs still tell goes, what must still run stays."""

from __future__ import annotations

import json

from schemas.records import Command
from streams.handlers.answers import Cancelled, Done
from streams.heads import State
from tests.unit.job_stories import play
from tests.unit.job_worlds import ORGANIZATION, START_MS, Worker, World, job_of, key_of, uuid

PHONE_KEY = f"{ORGANIZATION}:+5511912345678".encode()


def forget(number: int = 1) -> Command:
    return Command(
        id=uuid(70_000 + number), at_ms=START_MS, action="forget", organization_id=ORGANIZATION,
        issued_by="ops@clinic",
    )  # fmt: skip


def test_what_ended_jobs_tell_goes_and_their_ids_stay_so_that_nothing_runs_again() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Cancelled("the customer asked us to stop"))
        worker = Worker(world)
        await worker.begin()
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.order(forget(), key_of())
        await worker.turn()
        head = worker.memory[key_of()].heads[job.id]
        assert (head.state, head.outcome, head.last_error, head.job) == (State.FAILED, "vetoed", None, b"")
        (told,) = [one for one in world.outcomes() if one.outcome == "forgotten"]
        assert (told.job_id, told.contact_id) == (None, job.contact_id)
        facts = json.loads(told.facts or "")
        assert (facts["command"], facts["jobs_left"]) == (forget().id, 0)
        world.give(job)  # a late record of the same job
        await worker.turn()
        assert len(world.calls) == 1

    play(story())


def test_a_job_that_has_not_ended_keeps_its_content_and_is_told() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 60_000)
        worker = Worker(world)
        await worker.begin()
        job = job_of(1)
        world.give(job)
        await worker.turn()
        world.order(forget(), key_of())
        world.order(forget(), key_of())
        await worker.turn()
        assert worker.memory[key_of()].heads[job.id].job != b""
        told = [one for one in world.outcomes() if one.outcome == "forgotten"]
        assert [json.loads(one.facts or "")["jobs_left"] for one in told] == [1], "once"

    play(story())


def test_a_phone_is_never_told_as_somebodys_id() -> None:
    """The trace's column takes ids alone: an outcome with a phone in it would be a dead letter."""

    async def story() -> None:
        world = World(engine=lambda job, attempt: Done())
        worker = Worker(world)
        await worker.begin()
        world.order(forget(), PHONE_KEY)
        hold = Command(
            id=uuid(70_009), at_ms=START_MS, action="hold", organization_id=ORGANIZATION, job_id=uuid(5)
        )
        world.order(hold, PHONE_KEY)
        await worker.turn()
        told = world.outcomes()
        assert {one.outcome for one in told} == {"forgotten", "awaited:hold"}
        assert {one.contact_id for one in told} == {None}

    play(story())
