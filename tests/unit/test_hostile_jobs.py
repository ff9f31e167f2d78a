"""Jobs and commands that nobody would write on purpose: each ends in one place, and the worker lives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from uuid import UUID

import msgspec
import pytest

from schemas.codec import decode_job, encode_command, encode_job
from schemas.dead import Header
from schemas.errors import BadAvro
from schemas.records import Command, Job
from streams.contact_jobs import PAUSES
from streams.handlers.answers import Dead, Retry
from streams.heads import State
from streams.job_bounds import read_command
from streams.job_rows import verify_old
from tests.unit.job_stories import play, worker_in
from tests.unit.job_worlds import START_MS, World, job_of, key_of, state_of, uuid

HUGE = 2**63 - 1
SESSION = uuid(30_000)
UNKNOWN_VERSION = b"\xc3\x01" + b"12345678" + b"a body of tomorrow"


def with_payload(number: int, **more: str) -> Job:
    """A job whose payload has further members, each given as JSON text."""
    job = job_of(number)
    extra = "".join(f', "{name}": {text}' for name, text in more.items())
    return msgspec.structs.replace(job, payload=job.payload[:-1] + extra + "}")


async def lives_through(job: Job, key: bytes | None = None) -> World:
    """A worker gets a job, and another contact's; that one must be done."""
    world = World()
    worker = await worker_in(world)
    world.give(job, key)
    world.give(job_of(9, contact=9))
    await worker.turn(3)
    assert world.rows()[job_of(9).id].outcome == "done"
    assert worker.executor.tally.read == worker.executor.tally.accounted
    again = await worker_in(world)
    await again.turn()
    return world


@pytest.mark.parametrize("key", [b"\xff\xfe", b"", b"\xff:\xff", b"no colon", b":"])
def test_a_key_that_is_no_text_holds_nobody_up(key: bytes) -> None:
    async def story() -> None:
        world = await lives_through(job_of(1), key or None)
        assert world.rows()[job_of(1).id].outcome == "done"

    play(story())


def test_a_job_under_the_key_of_the_pauses_is_a_dead_letter() -> None:
    async def story() -> None:
        world = await lives_through(job_of(1), PAUSES)
        (letter,) = world.letters()
        assert letter[1] == encode_job(job_of(1))

    play(story())


@pytest.mark.parametrize("name", ["seq", "copy", "attempt", "replay"])
@pytest.mark.parametrize("number", [HUGE, -1])
def test_numbers_that_leave_no_room_are_dead_letters(name: str, number: int) -> None:
    async def story() -> None:
        job = msgspec.structs.replace(job_of(1), **{name: number})
        world = await lives_through(job)
        (letter,) = world.letters()
        assert dict(letter[3] or ())["reason"] == b"undecodable"

    play(story())


@pytest.mark.parametrize("text", ["[" * 50_000 + "]" * 50_000, "1e999", "1" * 5_000, '"\\ud800"'])
def test_whatever_stands_in_a_payload_turns_merge_and_run(text: str) -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 500)
        worker = await worker_in(world)
        world.give(job_of(1))
        await worker.turn()
        for number in (2, 3):
            world.give(with_payload(number, more=text))
        await worker.live(START_MS + 3_000)
        rows = world.rows()
        assert [rows[job_of(n).id].job_status for n in (1, 2, 3)] == ["done"] * 3

    play(story())


@pytest.mark.parametrize("since", [None, b"9" * 5_000, b"9" * 15, b"-1", b"\xff", "\u0663".encode()])
def test_an_unreadable_or_impossible_since_of_an_unknown_version_counts_from_now(since: bytes | None) -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        headers: Sequence[Header] = [("unknown-since", since)]
        world.append("dispatch.jobs", key_of(), UNKNOWN_VERSION, headers)
        await worker.live(START_MS + 70 * 60_000, step_ms=10_000)
        (letter,) = world.letters()
        assert letter[1] == UNKNOWN_VERSION

    play(story())


def test_a_requeued_job_that_there_is_no_handler_for_dies_again_and_its_lane_is_free() -> None:
    async def story() -> None:
        world = World()
        worker = await worker_in(world)
        job = job_of(1, kind="fax")
        world.give(job)
        await worker.turn()
        (letter,) = world.letters()
        world.order(
            Command(id="c1", at_ms=START_MS, action="requeue", job_id=job.id, replay=7, job=letter[1]),
            key_of(),
        )
        world.give(job_of(2))
        await worker.turn(3)
        assert world.rows()[job.id].outcome == "dead:unknown_kind"
        assert world.rows()[job_of(2).id].outcome == "done"
        assert worker.lanes.running == 0

    play(story())


def test_one_id_under_two_keys_leaves_no_slot_taken() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: 500)
        worker = await worker_in(world)
        world.give(job_of(1))
        world.give(job_of(1), key_of(2))
        await worker.live(START_MS + 3_000)
        assert worker.lanes.running == 0 and len(worker.calls) == 0
        assert {head.state for jobs in worker.memory.values() for head in jobs.heads.values()} == {State.DONE}

    play(story())


def test_a_command_with_nonsense_is_refused_and_the_worker_lives() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Dead("http_422"))
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.turn()
        bad = encode_job(msgspec.structs.replace(job, seq=HUGE))
        for number, command in enumerate(
            [
                Command(id="a", at_ms=HUGE, action="requeue", job_id=job.id, replay=HUGE, job=bad),
                Command(id="b", at_ms=-HUGE, action="requeue", job_id=job.id, replay=1, job=b"\xff"),
                Command(id="c", at_ms=HUGE, action="requeue", job_id=job.id, replay=1),
                Command(id="d", at_ms=0, action="hold", job_id=""),
                Command(id="", at_ms=0, action="cancel", job_id="x" * 1_000, reason="y" * 10_000),
                Command(id="e", at_ms=0, action="release"),
                Command(id="f", at_ms=HUGE, action="recover", job_id=job.id, job=bad),
                Command(id="g", at_ms=HUGE, action="recover", job_id="unknown", job=bad),
            ]
        ):
            world.order(command, [key_of(), b"", b"\xff", PAUSES][number % 4])
            world.order(command, key_of())
        await worker.turn(3)
        assert state_of(worker, job) is State.DEAD
        await (await worker_in(world)).turn()

    play(story())


def test_an_old_job_whose_id_is_no_uuid_holds_up_no_other() -> None:
    async def story() -> None:
        world = World()
        world.give(msgspec.structs.replace(job_of(1), id="no\x00uuid"))
        world.give(job_of(2, contact=2))
        world.now_ms += 25 * 3600 * 1000
        worker = await worker_in(world)
        await worker.read()
        asked: list[str] = []

        async def ended(jobs: Mapping[str, tuple[int, int]]) -> dict[str, State]:
            asked.extend(str(UUID(job_id)) for job_id in jobs)
            return {}

        verifying = asyncio.create_task(verify_old(worker.book, ended, lambda: world.now_ms, lambda: None))
        await asyncio.sleep(0.5)
        verifying.cancel()
        await worker.turn()
        assert asked == [job_of(2).id]
        assert world.rows()[job_of(2).id].outcome == "done"
        assert {job_id for _, job_id, _ in world.calls} == {"no\x00uuid", job_of(2).id}

    play(story())


def test_a_dead_letters_job_stays_readable() -> None:
    job = job_of(1)
    assert decode_job(encode_job(job)) == job


def test_an_order_to_recover_that_is_older_than_heads_are_kept_runs_nothing() -> None:
    async def story() -> None:
        world = World()
        job = job_of(1)
        world.order(
            Command(id="r", at_ms=START_MS, action="recover", job_id=job.id, job=encode_job(job)), key_of()
        )
        world.now_ms += 25 * 3600 * 1000
        worker = await worker_in(world)
        await worker.turn(2)
        assert world.calls == [] and state_of(worker, job) is None
        assert any(one.outcome == "refused:recover" for one in world.outcomes())
        asked_anew = Command(id="r", at_ms=world.now_ms, action="recover", job_id=job.id, job=encode_job(job))
        world.order(asked_anew, key_of())
        await worker.turn(2)
        assert state_of(worker, job) is State.DONE

    play(story())


def test_want_of_credit_is_told_though_the_sessions_trouble_was_told_before() -> None:
    async def story() -> None:
        world = World(engine=lambda job, attempt: Retry("http_402", spends=False, kind="credit"))
        world.asleep.add(SESSION)
        worker = await worker_in(world)
        job = job_of(1)
        world.give(job)
        await worker.live(START_MS + 2 * 3600 * 1000, step_ms=10_000)
        world.asleep.clear()
        await worker.live(world.now_ms + 30 * 60_000, step_ms=10_000)
        titles = [one.alert.title for one in world.outcomes(job.id) if one.alert is not None]
        assert len(titles) == 2 and len(set(titles)) == 2

    play(story())


@pytest.mark.parametrize("action", ["cancel", "settle"])
def test_a_reason_is_masked_and_cut_but_the_id_of_a_message_is_kept(action: str) -> None:
    told = "wamid.HBgNNTUxMTk4ODg4Nzc3NxUCABEYEjVCM0E5 5511988887777"
    command = read_command(encode_command(Command(id="a", at_ms=0, action=action, job_id="j", reason=told)))
    assert (command.reason == told) is (action == "settle")
    longer = Command(id="a", at_ms=0, action=action, job_id="j", reason="x" * 5_000)
    if action == "settle":
        with pytest.raises(BadAvro):
            read_command(encode_command(longer))
    else:
        assert len(read_command(encode_command(longer)).reason or "") == 300
