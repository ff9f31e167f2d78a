"""The story of an id: from rows, traces and what the worker remembers to words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from io import StringIO

import pytest
from rich.console import Console

from ops.moments import clock, local
from ops.why.evidence import EventRow, Evidence, JobRow, Letter, Live, SweptRow, TraceRow
from ops.why.now import event_now, job_now
from ops.why.show import as_json, timeline, unknown
from ops.why.story import MOST_STEPS, Story, story
from streams.contact import Contact, Frozen, Window, WindowEvent
from tests.unit.builders import uid

BEGIN = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
NOW = BEGIN + timedelta(seconds=5)
NOW_MS = int(NOW.timestamp() * 1000)
REAP_MS = 300_000
E1, E2, JOB, CONVERSATION = uid("e1"), uid("e2"), uid("job"), uid("c1")


def after(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def ms(seconds: float) -> int:
    return int(after(seconds).timestamp() * 1000)


def event(event_id: str = E1, **changes: object) -> EventRow:
    columns = {
        "organization_id": uid("clinic"),
        "contact_id": uid("ana"),
        "conversation_id": CONVERSATION,
        "message_id": uid("message"),
        "event_type": "ai_agent.dispatch_requested",
        "status": "pending",
        "outcome": None,
        "job_id": None,
        "attempts": 0,
        "last_error": None,
        "next_attempt_at": None,
        "consumed_by": (),
        "created_at": BEGIN,
        "updated_at": BEGIN,
    }
    return EventRow(id=event_id, **{**columns, **changes})  # type: ignore[arg-type]


def trace(
    event_id: str | None = E1, at: float = 8.02, facts: Mapping[str, object] | None = None, **changes: object
) -> TraceRow:
    window = {"opened_ms": ms(0), "deadline_ms": ms(8), "length_ms": 8_000, "attempts": 1}
    columns = {
        "organization_id": uid("clinic"),
        "contact_id": uid("ana"),
        "conversation_id": CONVERSATION,
        "message_id": uid("message"),
        "job_id": JOB,
        "replay": 0,
        "seq": 1,
        "stage": "decide",
        "status": "done",
        "outcome": "job",
    }
    told = {**window, **(facts or {})}
    return TraceRow(at=after(at), event_id=event_id, facts=told, **{**columns, **changes})  # type: ignore[arg-type]


def job(**changes: object) -> JobRow:
    columns = {
        "id": JOB,
        "organization_id": uid("clinic"),
        "contact_id": uid("ana"),
        "conversation_id": CONVERSATION,
        "message_id": uid("message"),
        "kind": "inbound_turn",
        "status": "pending",
        "attempts": 0,
        "max_attempts": 5,
        "last_error": None,
        "locked_by": None,
        "locked_at": None,
        "run_after": BEGIN,
        "created_at": BEGIN,
        "events": 2,
    }
    return JobRow(**{**columns, **changes})  # type: ignore[arg-type]


def told(evidence: Evidence) -> Story:
    return story(evidence, NOW_MS, REAP_MS)


def live(window: Window | None = None, *, unread: int = 0, written: int = 0, **contact: object) -> Live:
    windows = [] if window is None else [window]
    return Live(Contact(topic_id="t", windows=windows, **contact), 3, unread, written)  # type: ignore[arg-type]


def window(**changes: object) -> Window:
    members = [WindowEvent(E1, uid("message"), uid("session"), 0, ms(0))]
    columns = {"deadline_ms": ms(8), "length_ms": 8_000, "max_events": 100, "events": members}
    return Window(conversation_id=CONVERSATION, **{**columns, **changes})  # type: ignore[arg-type]


# -- where it is now


def now_of(
    of: Live | None, row: EventRow | None = None, swept: SweptRow | None = None
) -> tuple[str, str, int | None]:
    now = event_now(E1, row or event(), of, swept, NOW_MS, REAP_MS)
    assert now is not None
    return now.state, now.text, now.at_ms


def test_an_open_window_says_when_it_closes() -> None:
    state, text, at_ms = now_of(live(window()))
    assert (state, at_ms) == ("open_window", ms(8))
    assert text == f"is in an open window of 1 message that closes at {clock(local(ms(8)))}, in 3.0 s"


def test_a_window_that_is_overdue_says_what_it_waits_for() -> None:
    late = window(deadline_ms=ms(1))
    assert "the worker has 7 records" in now_of(live(late, unread=7))[1]
    assert "does the worker run" in now_of(live(late))[1]
    late.after_offset = 4
    assert "the sink has yet to write" in now_of(live(late, written=3))[1]


def test_a_wait_for_media_says_the_next_look_and_the_last() -> None:
    state, text, at_ms = now_of(live(window(state="media", look_at_ms=ms(9), deadline_ms=ms(4))))
    assert (state, at_ms) == ("waits_for_media", ms(9))
    assert "a photo" in text and clock(local(ms(124))) in text


def test_a_failed_decision_says_which_attempt_comes_when() -> None:
    retried = window(state="retry", look_at_ms=ms(20), failures=2, last_error="no such contact")
    state, text, at_ms = now_of(live(retried))
    assert (state, at_ms) == ("retry", ms(20))
    assert text.startswith("its decision failed (no such contact); attempt 3 of 5 at ")


def test_a_frozen_window_is_on_its_way_also_for_what_stop_0_took_out() -> None:
    member = window().events[0]
    frozen = Frozen(outcome="deduplicated", status="done", decided_ms=1, deduplicated=[(member, JOB)])
    assert now_of(live(window(state="frozen", frozen=frozen, events=[])))[0] == "sending"


def test_an_outcome_that_is_sent_says_whether_the_sink_has_it() -> None:
    seen = {f"{E1}#77": (ms(1), 12)}
    assert "yet to write it" in now_of(live(recent=seen, written=12))[1]
    assert "dead letter of the sink" in now_of(live(recent=seen, written=13))[1]
    assert now_of(live(recent={E1: (ms(1), -1)}))[0] == "known"


def test_an_event_that_nobody_has_seen_says_whether_it_waits_or_is_lost() -> None:
    assert now_of(live(unread=5))[0] == "unread"
    assert now_of(None)[0] == "unknown"
    state, text, at_ms = now_of(live())
    assert (state, at_ms) == ("unpublished", ms(300)) and "the sweep publishes it again at" in text
    assert now_of(live(), event(next_attempt_at=after(400)))[2] == ms(400)
    swept = SweptRow(E1, 2, after(1), after(2), after(900))
    assert now_of(live(), swept=swept)[2] == ms(900)


def test_what_another_system_processes_is_said_to_be_there() -> None:
    state, text, _ = now_of(live(), event(status="processing", consumed_by=["older"]))
    assert (state, text) == ("elsewhere", "is processed by another system (older)")
    reaped = now_of(live(), event(status="processing", consumed_by=["agent-engine"], updated_at=after(3)))
    assert reaped[0] == "unpublished" and reaped[2] == ms(303)


def test_what_has_ended_has_no_now() -> None:
    assert event_now(E1, event(status="done"), live(), None, NOW_MS, REAP_MS) is None
    assert event_now(E1, None, live(), None, NOW_MS, REAP_MS) is None


@pytest.mark.parametrize(
    ("row", "state", "words"),
    [
        (job(), "ready", "waits for its turn to run"),
        (job(run_after=after(65)), "waiting", "in 1 min"),
        (job(run_after=None), "held", "until somebody releases it"),
        (job(run_after=None, attempts=2, last_error="503"), "held", "until somebody releases it"),
        (job(attempts=2, run_after=after(15), last_error="503"), "retry", "failed (503); retry 3 of 5 at"),
        (job(status="running", attempts=1, locked_by="w1", locked_at=BEGIN), "running", "at w1, attempt 1"),
        (job(status="done", attempts=1), "done", "is done"),
        (job(status="failed", last_error="vetoed"), "failed", "was cancelled or vetoed: vetoed"),
        (job(status="dead", attempts=5, last_error="503"), "dead", "is dead after 5 of 5 attempts: 503"),
    ],
)  # fmt: skip
def test_a_job_says_where_it_is(row: JobRow, state: str, words: str) -> None:
    now = job_now(row, NOW_MS)
    assert now.state == state and words in now.text


# -- what happened


def test_a_burst_is_told_once_not_once_for_each_message() -> None:
    evidence = Evidence(
        JOB,
        ["job"],
        events=[event(), event(E2, created_at=after(1))],
        event_ids=[E1, E2],
        jobs=[job()],
        trace=[trace(), trace(E2), trace(None, status="pending")],
    )
    steps = told(evidence).steps
    assert [(step.what, len(step.events)) for step in steps] == [
        ("arrived", 1),
        ("window_opened", 2),
        ("arrived", 1),
        ("decided", 2),
    ]
    assert steps[-1].title == "one job for 2 messages"
    assert "20 ms after the window's end" in steps[-1].details


def test_a_stop_says_what_was_seen_and_what_to_do() -> None:
    because = {"organization_status": "suspended", "age_ms": 90_000, "is_group": None}
    facts = {"because": because, "warnings": ["media_wait_ceiling_passed"]}
    row = trace(outcome="org_not_operating", job_id=None, facts=facts, replay=5)
    (_, step) = told(Evidence(E1, ["event"], event_ids=[E1], trace=[row])).steps
    assert (step.level, step.outcome, step.title) == (
        "stop",
        "org_not_operating",
        "the organization is not active here",
    )
    for line in (
        "replay 5",
        "organization status: suspended",
        "age: 1 min 30 s",
        "is group: none",
        "warning: a photo or an audio was not read in time: answered without it",
        "→ Set its status to active; if there is no such organization here, correct who writes the event.",
    ):
        assert line in step.details


def test_failures_and_a_death_are_told_with_their_attempts_and_the_letter() -> None:
    failure = {"attempts": 4, "last_error": "no row", "next_attempt_at_ms": ms(38)}
    rows = [
        trace(status="pending", outcome=None, job_id=None, facts=failure),
        trace(at=38.1, status="dead", outcome="contact_missing", job_id=None, facts={"attempts": 5}),
    ]
    letter = Letter("dispatch.dead", 3, 1_234, ms(38.2), "contact_missing", "decide", "no row", E1, 5)
    steps = told(Evidence(E1, ["event"], event_ids=[E1], trace=rows, letters=[letter])).steps
    assert [step.title for step in steps[1:]] == [
        "the decision failed (attempt 4 of 5): no row",
        "given up after 5 attempts: the contact does not exist",
        "dead letter: the contact does not exist",
    ]
    assert "dispatch.dead [3] offset 1,234, from the stage decide" in steps[-1].details


def test_a_sweep_is_told_at_its_first_and_its_last_time() -> None:
    swept = SweptRow(E1, 3, after(300), after(1_500), after(3_000))
    steps = told(Evidence(E1, ["event"], event_ids=[E1], swept=[swept])).steps
    assert [step.title for step in steps] == [
        "published again by the sweep: it was pending for too long",
        "published again for the 3rd time",
    ]


def test_a_contacts_other_windows_are_told_too_and_long_stories_are_cut() -> None:
    rows = [event(uid(f"e{n}"), created_at=after(n), status="done") for n in range(MOST_STEPS + 5)]
    evidence = Evidence(
        uid("ana"), ["contact"], events=rows, event_ids=[row.id for row in rows], live=live(window(events=[
            WindowEvent(uid("new"), uid("m"), uid("s"), 0, ms(0))]))
    )  # fmt: skip
    made = told(evidence)
    assert (len(made.steps), made.left_out) == (MOST_STEPS, 5)
    assert [(now.about, now.state) for now in made.now] == [(f"conversation {CONVERSATION}", "open_window")]


# -- how it looks


def printed(what: object) -> str:
    console = Console(width=100, record=True, file=StringIO())
    console.print(what)
    return console.export_text()


def test_a_story_reads_as_a_timeline_with_gaps_and_now() -> None:
    evidence = Evidence(
        E1, ["event"], uid("clinic"), uid("ana"), [event()], [E1], [job()], [trace()],
        notes=["What is going on now is not told: Kafka is away"],
    )  # fmt: skip
    text = printed(timeline(told(evidence)))
    lines = [line.rstrip() for line in text.splitlines()]
    assert lines[0] == f"Event {E1}"
    assert f"  conversation  {CONVERSATION}" in lines
    assert any(line.endswith("○ written to the event log") for line in lines)
    assert any(line.endswith("│ 8.0 s") for line in lines)
    assert f"Now  job {JOB[:8]} waits for its turn to run" in lines
    assert lines[-1] == "What is going on now is not told: Kafka is away"


def test_a_story_for_programs_has_every_moment_twice() -> None:
    evidence = Evidence(E1, ["event"], events=[event()], event_ids=[E1], live=live(window()))
    made = json.loads(as_json(told(evidence)))
    assert made["found"] is True and made["kind"] == "event"
    (step,), (now,) = made["steps"], made["now"]
    assert datetime.fromisoformat(step["at"]) == BEGIN and step["at_ms"] == ms(0)
    assert datetime.fromisoformat(now["at"]) == after(8) and now["state"] == "open_window"


def test_an_unknown_id_says_where_it_was_looked_for() -> None:
    evidence = Evidence(E1, looked_at=["Postgres: event_log", "Kafka: dispatch.dead"])
    made = told(evidence)
    assert not made.found
    text = printed(unknown(made))
    assert f"Nothing is known of {E1}." in text and "  Kafka: dispatch.dead" in text
