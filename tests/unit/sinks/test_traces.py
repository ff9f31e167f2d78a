"""Lines for COPY say what the rows say, whatever the texts hold."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.records import EventOutcome, EventRef, Job, Outcome
from sinks.apply import DEDUPLICATED, rows_of
from sinks.raised import conditions_of
from sinks.rows import TraceRow
from sinks.traces import copied, trace_rows

ID = "11111111-1111-4111-8111-111111111111"
ROW = TraceRow(
    n=0, at_ms=1_790_000_000_007, organization_id=ID, conversation_id=ID, message_id=ID, event_id=ID,
    replay=0, seq=3, stage="decide", status="done", outcome="job", facts='{"attempts":1}',
)  # fmt: skip
UNESCAPED = {"\\\\": "\\", "\\n": "\n", "\\r": "\r", "\\t": "\t"}


def fields(line: str) -> list[str | None]:
    """As Postgres takes a line of COPY's text format apart."""
    assert line.endswith("\n") and line.count("\n") == 1
    found: list[str | None] = []
    for field in line[:-1].split("\t"):
        text, place = "", 0
        while place < len(field):
            pair = field[place : place + 2]
            text += UNESCAPED.get(pair, field[place])
            place += 2 if pair in UNESCAPED else 1
        found.append(None if field == "\\N" else text)
    return found


def test_a_line_has_the_columns_in_their_order() -> None:
    line = copied(ROW)
    assert line is not None
    assert fields(line) == [
        "2026-09-21 14:13:20.007Z", ID, None, ID, ID, ID, None, "0", "3", "decide", "done", "job",
        '{"attempts":1}',
    ]  # fmt: skip


@pytest.mark.thorough
@given(st.text(max_size=30), st.text(max_size=30), st.text(max_size=60))
def test_no_text_breaks_out_of_its_column(contact: str, outcome: str, facts: str) -> None:
    odd = msgspec.structs.replace(ROW, contact_id=contact, outcome=outcome, facts=facts)
    line = copied(odd)
    assert line is not None
    found = fields(line)
    assert len(found) == 13
    assert (found[2], found[11], found[12]) == (contact, outcome, facts)


@pytest.mark.parametrize("lacks", ["message_id", "conversation_id", "facts"])
def test_what_the_events_own_row_must_tell_is_not_copied(lacks: str) -> None:
    assert copied(msgspec.structs.replace(ROW, **{lacks: None})) is None


def test_a_time_that_no_calendar_has_is_left_to_postgres() -> None:
    assert copied(msgspec.structs.replace(ROW, at_ms=10**17)) is None
    assert copied(msgspec.structs.replace(ROW, at_ms=-1)) is not None


def test_a_job_is_told_with_its_own_attempts_and_each_event_with_its() -> None:
    job = Job(
        id=ID, organization_id=ID, kind="inbound_turn", source_event_id=ID, seq=4, attempt=2, created_at_ms=1,
        run_after_ms=1, payload="{}", events=(EventRef("a"),),
    )  # fmt: skip
    events = (EventOutcome(event_id="a", seq=1, attempts=1), EventOutcome(event_id="b", seq=1, attempts=3))
    outcome = Outcome(
        organization_id=ID, at_ms=1, stage="decide", events=events, status="done", job=job,
        last_error="e", next_attempt_at_ms=5, facts='{"length_ms": 8000, "messages": {}}',
    )  # fmt: skip
    told = [msgspec.json.decode(row.facts or "") for row in trace_rows(0, outcome)]
    rest = {"length_ms": 8000, "last_error": "e", "next_attempt_at_ms": 5}
    assert told == [{"attempts": 1} | rest, {"attempts": 3} | rest, {"attempts": 2} | rest]


def test_what_is_nested_too_deep_to_be_decoded_is_left_to_postgres() -> None:
    deep = '{"x":' + "[" * 50_000 + "]" * 50_000 + "}"
    job = Job(
        id=ID, organization_id=ID, kind="inbound_turn", source_event_id=ID, seq=4, created_at_ms=1,
        run_after_ms=1, payload=deep, events=(),
    )  # fmt: skip
    event = EventOutcome(event_id=ID, seq=1)
    outcome = Outcome(
        organization_id=ID, at_ms=1, stage="health", events=(event,), status="done", job=job, result=deep,
        outcome=DEDUPLICATED, facts=deep,
    )  # fmt: skip
    assert {row.facts for row in trace_rows(0, outcome)} == {deep}
    assert rows_of([msgspec.structs.replace(outcome, stage="decide")]).settled == []
    troubles, _ = conditions_of([outcome])
    assert troubles == []
