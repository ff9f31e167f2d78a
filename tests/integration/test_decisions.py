"""The decision scenarios on a real Postgres: rows in, windows as our system forms them, decisions compared.

`RAJADA_DECISION_CASES=FILE` names another file of the same format. Each scenario runs twice: with windows as
their events' times and the agents' lengths cut them, and with one window per conversation. Each decision is
made twice as well: on facts that Postgres told, and on facts read from the same rows in Python.
"""

from __future__ import annotations

import json
import os
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import psycopg
import pytest
import pytest_asyncio

from db.pool import AsyncPool, async_pool
from settings import Settings
from sinks.alerts import raise_alerts
from sinks.raised import alerts_of
from streams.asking import question_of
from streams.closing import sent_of
from streams.contact import Contact, Window
from streams.decide import CONTACT_MISSING, Decision, Enqueue, Fail, decide
from streams.events import Event, InvalidPayload, read_event
from streams.facts import FactReader
from streams.freezing import fail
from streams.lengths import WindowLengths
from streams.ports import Lengths
from streams.question import Facts, Question, Rules
from streams.windows import WindowRule, take_in
from tests.integration.crm_tables import Connection, Row, Tables, crm_database, replace_rows
from tests.integration.memory_facts import facts_in_memory
from tests.integration.scenarios import (
    Decided,
    Scenario,
    claimed,
    compare,
    expected_inbox,
    jobs_that_are_windows,
    load_scenarios,
    tables_of,
)

CASES = Path(
    os.environ.get("RAJADA_DECISION_CASES") or Path(__file__).parents[1] / "cases" / "decisions.json"
)
SCENARIOS = load_scenarios(CASES)
ONE_PER_CONVERSATION = WindowRule(length_ms=10**12, max_events=10**6)
KNOWN_STEPS = {"tick"}
on_one_loop = pytest.mark.asyncio(loop_scope="module")


@dataclass
class Tally:
    """What the run of this file came to."""

    agreeing: set[str] = field(default_factory=set)
    events: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


TALLY = Tally()


@pytest.fixture(scope="module")
def crm(postgres: str) -> Iterator[str]:
    with crm_database(postgres, f"decisions_{uuid.uuid4().hex[:10]}") as url:
        yield url


@pytest.fixture(scope="module")
def rows(crm: str) -> Iterator[Connection]:
    with psycopg.connect(crm, autocommit=True) as connection:
        yield connection


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pool(crm: str) -> AsyncIterator[AsyncPool]:
    async with async_pool(crm, name="decisions", max_size=1) as pool:
        yield pool


@on_one_loop
@pytest.mark.parametrize("cut", ["by time", "one per conversation"])
@pytest.mark.parametrize("scenario", SCENARIOS, ids=[scenario.id for scenario in SCENARIOS])
async def test_scenario(scenario: Scenario, cut: str, rows: Connection, pool: AsyncPool) -> None:
    if unknown := {str(step.get("op")) for step in scenario.steps} - KNOWN_STEPS:
        TALLY.left_out[scenario.id] = f"steps of kind {sorted(unknown)}: not a single state"
        pytest.skip(TALLY.left_out[scenario.id])
    base_ms = time.time_ns() // 1_000_000
    tables = tables_of(scenario, base_ms)
    ridden = _open_windows(scenario, tables)
    replace_rows(rows, tables)

    events, invalid = _read(claimed(scenario, tables, base_ms), base_ms)
    settings = Settings(inbound_debounce_ms=scenario.debounce_ms)
    windows = await _windows(events, ridden, WindowLengths(pool, settings), cut)
    questions = [_question(*window) for window in windows]
    read = await FactReader(pool).read(questions)
    rules = Rules(allowlist_ttl_days=scenario.ttl_days)

    decided = []
    for (key, window), question, facts in zip(windows, questions, read, strict=True):
        assert isinstance(facts, Facts)
        decision = decide(question, facts, rules)
        again = decide(question, facts_in_memory(tables, question, facts.db_now_ms), rules)
        assert _settled(decision) == _settled(again), "Postgres and Python see the same rows differently"
        decided.append(_closed(key, window, decision))

    agreement = compare(scenario, decided, invalid)
    _bury(rows, windows)
    assert _inbox(rows) == expected_inbox(scenario)
    assert not agreement.disagreements, "\n".join([scenario.title, *agreement.disagreements])
    TALLY.agreeing.add(scenario.id)
    TALLY.events += agreement.agreed
    for event, why in agreement.left_out.items():
        TALLY.left_out[scenario.id] = f"event {event}: {why}"


def test_the_tally(capsys: pytest.CaptureFixture[str]) -> None:
    """Says how many scenarios agree, and what was left out and why."""
    with capsys.disabled():
        print(f"\n{len(TALLY.agreeing)} of {len(SCENARIOS)} scenarios of {CASES.name} agree", end="")
        print(f" ({TALLY.events} events, windows cut in two ways); left out: {len(TALLY.left_out)}")
        for scenario, why in sorted(TALLY.left_out.items()):
            print(f"  {scenario}: {why}")


# -- as our system does it


def _open_windows(scenario: Scenario, tables: Tables) -> set[str]:
    """Events that ride on a waiting job: the job's row goes, its window is what they join."""
    ridden = jobs_that_are_windows(scenario)
    tables["job_queue"] = [row for row in tables["job_queue"] if row["id"] not in ridden.values()]
    return set(ridden)


def _read(rows: Sequence[Row], base_ms: int) -> tuple[list[Event], set[str]]:
    """The events of claimed rows, read from the bytes that the publisher makes of them."""
    events, invalid = [], set()
    for offset, row in enumerate(rows):
        created = row.get("created_at")
        assert isinstance(created, (int, float))
        value = {
            "id": row["id"],
            "organization_id": row["organization_id"],
            "event_type": row["event_type"],
            "payload": json.dumps(row["payload"]),
            "attempts": row.get("attempts", 0),
        }
        found = read_event(json.dumps(value).encode(), [], int(created), base_ms, offset)
        if isinstance(found, InvalidPayload):
            invalid.add(found.event_id)
        else:
            assert isinstance(found, Event)
            events.append(found)
    return events, invalid


async def _windows(
    events: Sequence[Event], ridden: set[str], lengths: Lengths, cut: str
) -> list[tuple[bytes, Window]]:
    keys = [(event.organization_id, event.conversation_id, event.session_id) for event in events]
    rules = await lengths.lookup(keys)
    contacts: dict[bytes, Contact] = {}
    for event, key in zip(events, keys, strict=True):
        rule = ONE_PER_CONVERSATION if cut != "by time" else rules[key]
        contact = contacts.setdefault(event.key, Contact(topic_id="t"))
        if event.event_id in ridden:
            earlier = _earlier(event)
            take_in(contact, earlier, rule, (), event.time_ms)
        take_in(contact, event, rule, (), event.time_ms)
    return [(key, window) for key, contact in contacts.items() for window in contact.windows]


def _earlier(event: Event) -> Event:
    """The event of the job that was rode on: a moment before, of a message that nobody asks about."""
    return Event(
        key=event.key,
        event_id=str(uuid.uuid4()),
        organization_id=event.organization_id,
        contact_id=event.contact_id,
        conversation_id=event.conversation_id,
        session_id=event.session_id,
        message_id=str(uuid.uuid4()),
        offset=event.offset,
        time_ms=event.time_ms - 1,
    )


def _question(key: bytes, window: Window) -> Question:
    now_ms = time.time_ns() // 1_000_000
    asked = question_of(key, window, now_ms=now_ms, superseded_since_ms=None, max_wait_ms=30_000)
    return replace(asked, deadline_ms=min(window.deadline_ms, now_ms))


def _bury(connection: Connection, windows: Sequence[tuple[bytes, Window]]) -> None:
    """Tell the sink of the windows that died, as the worker does."""
    outcomes = [
        outcome
        for key, window in windows
        if window.frozen is not None and window.frozen.status == "dead"
        for outcome in sent_of(key, window).outcomes
    ]
    raise_alerts(connection, alerts_of(outcomes, range(len(outcomes))))


def _inbox(connection: Connection) -> list[tuple[object, ...]]:
    """Organization, kind, severity, title, status, and whether the text tells what went wrong."""
    return sorted(
        connection.execute(
            "SELECT organization_id::text, kind, severity, title, status, coalesce(body, '') LIKE %s"
            " FROM agent_inbox_items",
            (f"%{CONTACT_MISSING}%",),
        ).fetchall(),
        key=str,
    )


def _settled(decision: Decision) -> object:
    """A decision without what depends on the millisecond in which it was made."""
    return type(decision), getattr(decision, "reason", None), decision.deduplicated, decision.warnings


def _closed(key: bytes, window: Window, decision: Decision) -> Decided:
    members = {member.event_id: member.message_id for member in window.events}
    if isinstance(decision, Fail):
        dead = fail(window, decision.error_class, decision.message, (), 0, 30_000)
        return Decided(tuple(members), decision, None, dead)
    answered = members[decision.answers] if isinstance(decision, Enqueue) else None
    return Decided(tuple(members), decision, answered)
