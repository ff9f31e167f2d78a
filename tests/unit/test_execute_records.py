"""Records of the jobs' topic that are no job for us: each has an end, and the worker lives."""

from __future__ import annotations

import pytest

from tests.unit.job_stories import play, worker_in
from tests.unit.job_worlds import START_MS, World, job_of, key_of


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


@pytest.mark.parametrize("value", [b"\xff", b"\x00\x00\x00\x00", b"\xc3\x01short", None])
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


@pytest.mark.parametrize("header", [b"\xc3\x01" + b"12345678", b"\x00\x00\x00\x00\x07"])
def test_a_record_of_an_unknown_schema_is_looked_at_for_an_hour_then_dead_with_its_bytes(
    header: bytes,
) -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        value = header + b"a body of tomorrow"
        world.append("dispatch.jobs", key_of(), value)
        await worker.live(START_MS + 59 * 60_000, step_ms=10_000)
        assert world.letters() == [] and worker.executor.tally.postponed >= 58
        await worker.live(START_MS + 70 * 60_000, step_ms=10_000)
        (letter,) = world.letters()
        assert letter[1] == value and dict(letter[3] or ())["reason"] == b"unknown_schema"
        assert worker.executor.tally.read == worker.executor.tally.accounted

    play(story())
