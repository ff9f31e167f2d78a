"""Conservation: every record and every window is counted in exactly one place, whatever happens."""

from __future__ import annotations

import asyncio
import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.counting import told
from streams.decide import Decision, Emptied, Enqueue, Fail, LookAgain, Stop, WaitForMedia
from streams.question import Question
from tests.unit.builders import event, row, uid
from tests.unit.worlds import Crash, Decide, Record, Worker, World

KINDS = ("good", "again", "invalid", "garbage", "misplaced", "misplaced_twice", "of_tomorrow")


def write(world: World, kind: str, number: int, contact: str) -> None:
    """The next record of the log: one of each kind that anybody may produce."""
    name = f"e{number // 2}" if kind == "again" else f"e{number}"
    one = event(name, contact=contact, conversation=f"c of {contact}")
    payload = {
        "conversation_id": one.conversation_id,
        "contact_id": one.contact_id,
        "channel_session_id": one.session_id,
        "inbound_message_id": one.message_id,
    }
    if kind == "invalid":
        payload["contact_id"] = "nobody"
    value = json.dumps(row(name, payload=json.dumps(payload))).encode() if kind != "garbage" else b"\xff"
    if kind == "of_tomorrow":
        value = b"\xc3\x01tomorrow" + name.encode()
    key = b"elsewhere" if kind.startswith("misplaced") else one.key
    headers: list[tuple[str, bytes | None]] = [("cdc_source_ts_ms", str(world.now_ms).encode())]
    if kind == "misplaced_twice":
        headers.append(("rekeyed", b"1"))
    world.log.append(Record(key, value, len(world.log), world.now_ms, headers=headers))


def decider(seed: int) -> Decide:
    """Answers everything that a decision can be."""
    order = random.Random(seed)

    def decide(question: Question) -> Decision:
        first, last = question.events[0].event_id, question.events[-1].event_id
        kind = order.randrange(8)
        if kind == 0:
            return Stop("org_not_operating")
        if kind == 1:
            return Stop("superseded_by_newer_inbound", deduplicated=((first, None),))
        if kind == 2:
            return Emptied(deduplicated=tuple((one.event_id, uid("job")) for one in question.events))
        if kind == 3:
            return Fail(error_class="contact_missing", message="gone")
        if kind == 4:
            return WaitForMedia(recheck_in_ms=500)
        if kind == 5:
            return LookAgain(in_ms=500, error_class="sqlstate_57014")
        return Enqueue(answers=last)

    return decide


actions = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(KINDS), st.sampled_from(["ana", "bia"])),
        st.tuples(st.just("pass"), st.integers(0, 40_000)),
        st.tuples(st.just("collect"), st.integers(1, 5)),
        st.tuples(st.just("commit")),
        st.tuples(st.just("step")),
        st.tuples(st.just("rebalance")),
        st.tuples(st.just("crash"), st.integers(1, 12)),
    ),
    min_size=5,
    max_size=50,
)


def check(worker: Worker) -> None:
    """The numbers add up, and they are true: compared with the windows that are really there."""
    counts, tally = worker.collector.counts, worker.flusher.tally
    assert counts.read == counts.accounted
    assert counts.opened == tally.opened
    assert tally.recovered + tally.opened == (
        tally.jobs + sum(tally.stops.values()) + tally.deaths + tally.emptied + tally.handed_over + tally.open
    )
    assert tally.open == sum(len(contact.windows) for contact in worker.memory.values())


async def live(world: World, script: list[tuple]) -> None:
    worker, number, read = Worker(world), 0, 0
    for what, *arguments in script:
        try:
            if what == "write":
                write(world, arguments[0], number, arguments[1])
                number += 1
            elif what == "pass":
                world.now_ms += arguments[0]
            elif what == "collect":
                before = worker.position
                await worker.collect(arguments[0])
                read += worker.position - before
            elif what == "commit":
                await worker.commit()
            elif what == "step":
                await worker.flusher.step()
            elif what == "rebalance":
                await worker.flusher.give_up()
                assert worker.flusher.tally.open == 0
                worker.flusher.own({0})
            else:
                world.crash_at = world.operations + arguments[0]
                continue
        except Crash:
            world.die({})
            worker, read = Worker(world), 0
            continue
        assert worker.collector.counts.read == read
        check(worker)


@pytest.mark.thorough
@settings(max_examples=150, deadline=None)
@given(actions, st.integers(0, 2**16))
def test_every_record_and_every_window_is_in_exactly_one_place(script: list[tuple], seed: int) -> None:
    world = World(decide=decider(seed))
    asyncio.run(live(world, script))


def test_numbers_are_told_flat_with_a_line_for_each_stop() -> None:
    world = World(decide=lambda question: Stop("no_published_agent"))

    async def one() -> dict[str, int]:
        worker = Worker(world)
        write(world, "good", 0, "ana")
        await worker.collect(1)
        world.now_ms += 8_001
        await worker.flusher.step()
        return told(worker.collector.counts, worker.flusher.tally)

    numbers = asyncio.run(one())
    assert {name: count for name, count in numbers.items() if count} == {
        "read": 1,
        "opened": 1,
        "stop:no_published_agent": 1,
    }
