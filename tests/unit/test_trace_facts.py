"""What the trace is told of a window: enough for its whole story, the same however often it is sent."""

from __future__ import annotations

import asyncio
import json

from schemas.records import Outcome
from sinks.apply import rows_of
from streams.decide import Fail, Stop
from tests.unit.builders import uid
from tests.unit.test_freeze_protocol import write
from tests.unit.worlds import Decide, Worker, World, enqueue


def outcomes_of(decide: Decide, names: tuple[str, ...] = ("e1", "e2")) -> tuple[World, list[Outcome]]:
    """What one window of these events sends."""
    world = World(decide=decide)

    async def live() -> None:
        worker = Worker(world)
        for name in names:
            write(world, name)
            world.now_ms += 100
        await worker.collect(10)
        world.now_ms += 8_000
        await worker.flusher.step()
        await asyncio.sleep(0)

    asyncio.run(live())
    return world, world.outcomes()


def test_a_job_is_told_with_its_window_and_the_message_of_each_event() -> None:
    world, (outcome,) = outcomes_of(enqueue)
    opened = world.log[0].timestamp
    assert json.loads(outcome.facts or "") == {
        "conversation_id": uid("c1"),
        "messages": {uid(name): uid(f"message of {name}") for name in ("e1", "e2")},
        "opened_ms": opened,
        "deadline_ms": opened + 8_000,
        "length_ms": 8_000,
    }
    traces = rows_of([outcome]).traces
    assert [(one.event_id, one.message_id) for one in traces] == [
        (uid("e1"), uid("message of e1")),
        (uid("e2"), uid("message of e2")),
        (None, uid("message of e2")),
    ]
    assert {one.conversation_id for one in traces} == {uid("c1")}
    assert all("messages" not in json.loads(one.facts or "{}") for one in traces)


def test_a_stop_is_told_with_what_was_seen_and_warnings() -> None:
    def stop(_: object) -> Stop:
        return Stop("too_old", because={"age_ms": 9_000}, warnings=("followup_unreadable",))

    _, (outcome,) = outcomes_of(stop)
    facts = json.loads(outcome.facts or "")
    assert (facts["because"], facts["warnings"]) == ({"age_ms": 9_000}, ["followup_unreadable"])


def test_a_failed_decision_is_told_with_its_window_too() -> None:
    _, (outcome,) = outcomes_of(lambda _: Fail(error_class="contact_missing", message="no row"))
    assert outcome.next_attempt_at_ms is not None
    assert json.loads(outcome.facts or "")["length_ms"] == 8_000


def test_facts_that_are_not_ours_are_kept_as_they_are() -> None:
    for facts in ('{"messages": [1]}', "[1]", '{"conversation_id": 7}'):
        outcome = Outcome(
            organization_id=uid("clinic"), at_ms=1, stage="x", events=(), status="done", facts=facts
        )
        assert [one.facts for one in rows_of([outcome]).traces] == [facts]
