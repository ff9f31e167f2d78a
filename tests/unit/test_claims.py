"""One event id, two contacts, by hand: the second is told, never both answered under one job id."""

from __future__ import annotations

import asyncio
import json

import pytest

from streams import claims
from streams.claims import Claims
from streams.decide import Decision, Emptied
from streams.question import Question
from tests.unit.builders import uid
from tests.unit.test_freeze_protocol import settle, write
from tests.unit.worlds import Worker, World, enqueue

ANA, BIA = f"{uid('clinic')}:{uid('ana')}".encode(), f"{uid('clinic')}:{uid('bia')}".encode()
ELSEWHERE = f"{uid('another clinic')}:{uid('bia')}".encode()


def test_an_id_is_one_contacts_of_an_organization_until_the_sink_has_told_postgres() -> None:
    found = Claims()
    found.note(ANA, 0, ["e1"])
    assert found.of_others(BIA, ["e0", "e1"])
    assert not found.of_others(ANA, ["e1"])
    assert not found.of_others(ELSEWHERE, ["e1"]), "another organization's ids are its own"
    found.forget_written(lambda partition: 100)
    assert len(found) == 1, "what was not sent yet is not written"
    found.note(ANA, 0, ["e1"], outcome_offset=7)
    found.forget_written(lambda partition: 7)
    assert found.of_others(BIA, ["e1"])
    found.forget_written(lambda partition: 8)
    assert not found.of_others(BIA, ["e1"])


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "MOST", 500)
    found = Claims()
    found.note(ANA, 0, [str(number) for number in range(505)])
    assert len(found) == 500
    assert not found.of_others(BIA, ["4"]) and found.of_others(BIA, ["5"])


def test_the_same_id_under_two_contacts_in_one_moment_is_one_job_and_a_trace_that_says_so() -> None:
    world = World()

    def decide(question: Question) -> Decision:
        told = {one.event_id: job for job in world.jobs()[: world.written] for one in job.events}
        (event,) = question.events
        job = told.get(event.event_id)
        if job is None:
            return enqueue(question)
        others = () if job.contact_id == question.contact_id else (event.event_id,)
        return Emptied(deduplicated=((event.event_id, job.id),), of_others=others)

    world.decide = decide

    async def scenario() -> None:
        worker = Worker(world)
        write(world, "e0", contact="ana", conversation="c of ana")
        write(world, "e0", contact="bia", conversation="c of bia")
        for _ in range(20):
            await worker.collect(2)
            world.now_ms += 1_000
            await worker.flusher.step()
        assert len(world.jobs()) == 1, "the second waits until the first is in Postgres"
        world.written = 1
        await settle(world, worker)

    asyncio.run(scenario())
    assert [job.contact_id for job in world.jobs()] == [uid("ana")]
    first, second = world.outcomes()
    assert (second.contact_id, second.outcome) == (uid("bia"), "deduplicated")
    assert json.loads(second.facts or "{}")["of_another_contact"] == [uid("e0")]
    assert json.loads(second.facts or "{}")["jobs"] == {uid("e0"): first.job_id}
