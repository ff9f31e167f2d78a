"""BR-38: every consumed record ends in exactly one of done, retry, dead; none is dropped with a log line."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.dead import REPLAYS, Header
from schemas.delayed import WAITS_IN
from schemas.topic_names import DEAD, PARKING, SOURCE
from streams.decide import Decision, Fail, Stop
from streams.question import Question
from streams.windows import WindowRule
from tests.unit.builders import event, row, row_bytes, uid
from tests.unit.test_freeze_protocol import settle
from tests.unit.worlds import Record, Worker, World, enqueue

KINDS = (
    "event", "invalid payload", "not json", "null", "wrong type", "wrong key", "wrong key twice",
    "of tomorrow",
)  # fmt: skip

_BURIED_AT_ONCE = ("not json", "null", "wrong type", "wrong key twice")


def publish(world: World, n: int, kind: str, replays: int) -> None:
    """A record of one of the kinds."""
    name = f"e{n}"
    one = event(name, contact=f"c{n % 3}", conversation=f"of c{n % 3}")
    payload = {
        "conversation_id": one.conversation_id,
        "contact_id": one.contact_id,
        "channel_session_id": one.session_id,
        "inbound_message_id": one.message_id,
    }
    headers: list[Header] = [("cdc_source_ts_ms", str(world.now_ms).encode())]
    if replays:
        headers.append((REPLAYS, str(replays).encode()))
    key: bytes | None = one.key
    value: bytes | None = row_bytes(name, payload=json.dumps(payload))
    match kind:
        case "invalid payload":
            value = json.dumps(row(name, payload="{}")).encode()
        case "not json":
            value = b"\xff" + name.encode()
        case "null":
            value = None
        case "of tomorrow":
            value = b"\xc3\x01tomorrow" + name.encode()
        case "wrong type":
            value = row_bytes(name, event_type="message.created")
        case "wrong key":
            key = b"wrong"
        case "wrong key twice":
            key = b"wrong"
            headers.append(("rekeyed", b"1"))
    world.log.append(Record(key, value, len(world.log), world.now_ms, headers=headers))


records = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 4)), min_size=1, max_size=25)


@pytest.mark.thorough
@settings(max_examples=40)
@given(records, st.integers(0, 10_000))
def test_br_38_each_record_ends_in_exactly_one_place(script: list[tuple[str, int]], seed: int) -> None:
    """Decisions fail at random, for good for some; what came in is what went to all ends together."""
    dice = random.Random(seed)
    poisoned = {uid(f"e{n}") for n in range(len(script)) if dice.random() < 0.2}

    def decide(question: Question) -> Decision:
        if any(one.event_id in poisoned for one in question.events):
            return Fail("contact_missing", "no such contact", deduplicated=(), warnings=())
        if dice.random() < 0.2:
            return Fail("sqlstate_23514", "a passing trouble", deduplicated=(), warnings=())
        return Stop("no_published_agent") if dice.random() < 0.2 else enqueue(question)

    world = World(rule=WindowRule(1_000, max_events=1), decide=decide)
    for n, (kind, replays) in enumerate(script):
        publish(world, n, kind, replays)

    async def scenario() -> None:
        worker = Worker(world)
        await settle(world, worker)

    asyncio.run(scenario())
    outcomes = world.outcomes()
    ended = Counter(
        one.event_id
        for told in outcomes
        if told.status == "done" and told.outcome != "deduplicated"
        for one in told.events
    )
    letters = [*world.durable.get(DEAD, []), *world.durable.get(PARKING, [])]
    again = [*world.durable.get(SOURCE, []), *world.durable.get(WAITS_IN, [])]
    assert all(count == 1 for count in ended.values())
    assert len(ended) + len(letters) + len(again) == len(script)
    # (this world's undertaker fetches no headers, so what dies in a window is not told apart here)
    parked = sum(replays >= 3 and kind in _BURIED_AT_ONCE for kind, replays in script)
    assert len(world.durable.get(PARKING, [])) == parked, "what died after three replays is parked"
    dead = {one.event_id for told in outcomes if told.status == "dead" for one in told.events}
    assert len(dead) == len(letters), "nobody dies in silence"
