"""The story of a job: every transition in words, what was ordered, what is open."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from ops.moments import clock, local
from ops.why.evidence import AlertRow, Evidence, OrderRow, SettledRow
from ops.why.step import Step
from tests.unit.builders import uid
from tests.unit.test_why import E1, E2, JOB, after, job, ms, told, trace

OTHER = uid("other job")


def transition(
    at: float, status: str, outcome: str | None, facts: Mapping[str, object] | None = None, **changes: object
) -> Step:
    """The one step of a job's transition."""
    own = {"opened_ms": None, "deadline_ms": None, "length_ms": None, **(facts or {})}
    columns = {"stage": "execute", "status": status, "outcome": outcome, "seq": int(at * 10), **changes}
    row = trace(None, at, own, **columns)
    (step,) = [one for one in told(Evidence(JOB, ["job"], trace=[row])).steps if one.what == "job"]
    return step


@pytest.mark.parametrize(
    ("status", "outcome", "facts", "title", "level"),
    [
        ("running", None, {"attempts": 2, "attempt": 2}, "attempt 2 begins", "info"),
        (
            "done", "done", {"attempts": 1, "attempt": 1, "duration_ms": 1_250, "http_status": 200},
            "attempt 1: answered after 1.2 s", "good",
        ),
        (
            "pending", "retry:http_503", {"attempts": 2, "attempt": 2, "duration_ms": 900},
            "attempt 2 failed after 900 ms: the server answered 503", "warn",
        ),
        (
            "pending", "retry:http_402", {"attempts": 0, "attempt": 1, "duration_ms": 5},
            "attempt 1 does not count after 5 ms: the server answered 402", "warn",
        ),
        (
            "pending", "retry:session_not_working", {"attempts": 0},
            "the job has to wait: the channel session does not work", "warn",
        ),
        (
            "pending", "retry:worker_lost", {"attempts": 1, "attempt": 1},
            "attempt 1 failed: the worker died during the call", "warn",
        ),
        (
            "dead", "dead:http_500", {"attempts": 5, "attempt": 5, "duration_ms": 40},
            "attempt 5 after 40 ms: the job is given up after 5 attempts: the server answered 500", "dead",
        ),
        ("held", "held:no_engine", {"attempts": 0}, "the job is held: no agent engine is named", "stop"),
        ("held", "held:by hand", {"attempts": 0}, "the job is held: by hand", "stop"),
        ("failed", "cancelled:wrong number", {"attempts": 0}, "the job is cancelled: wrong number", "stop"),
        (
            "failed", "vetoed:http_409", {"attempts": 1, "attempt": 1, "duration_ms": 7},
            "attempt 1 after 7 ms: the job is vetoed: the server answered 409", "stop",
        ),
        ("done", f"merged:{OTHER}", {"attempts": 0}, f"ends: merged into a newer turn ({OTHER})", "stop"),
        ("done", f"covered_by:{OTHER}", {"attempts": 1}, f"ends: covered by a newer turn ({OTHER})", "stop"),
        ("pending", "handed_back", {"attempts": 0, "attempt": 1}, "handed back", "info"),
        ("pending", "something_new", {"attempts": 0}, "something new", "info"),
        ("pending", None, {"attempts": 0}, "the job waits", "info"),
    ],
)  # fmt: skip
def test_every_transition_in_words(
    status: str, outcome: str | None, facts: dict[str, object], title: str, level: str
) -> None:
    step = transition(9, status, outcome, facts)
    assert (step.title, step.level, step.details[0]) == (title, level, f"job {JOB}")


def test_a_retry_says_when_and_what_was_answered() -> None:
    facts = {
        "attempts": 1, "attempt": 1, "http_status": 503, "last_error": "http_503: busy",
        "next_attempt_at_ms": ms(29),
    }  # fmt: skip
    step = transition(9, "pending", "retry:http_503", facts)
    assert step.details[1:] == [
        f"again at {clock(local(ms(29)))}, 20.0 s later",
        "HTTP 503",
        "http_503: busy",
    ]
    tomorrow = transition(9, "pending", "retry:http_503", {"next_attempt_at_ms": ms(100_000)})
    assert " on 2026-07-25 (" in tomorrow.details[1]


def test_a_dead_job_says_what_to_do_and_a_done_one_what_the_provider_called_it() -> None:
    assert any(line.startswith("→ ") for line in transition(9, "dead", "dead:unknown_kind", {}).details)
    done = transition(9, "done", "done", {"attempt": 1, "provider_message_id": "wamid.1"})
    assert done.details[1:] == ["the provider's message: wamid.1"]


def test_an_order_that_changes_nothing_yet_is_no_end() -> None:
    step = transition(9, "done", "awaited:cancel", {"by": "ana"}, stage="control", seq=0)
    assert (step.title, step.level, step.details[1:]) == ("the order waits", "info", ["by ana"])
    released = transition(9, "pending", "released", {}, stage="control", seq=4)
    assert released.title == "released"


def test_a_replays_number_is_told() -> None:
    assert "replay 7" in transition(9, "pending", "requeued", {}, replay=7, stage="control").details


def test_a_run_under_another_contacts_id_says_so() -> None:
    """Two workers took one hand-made id for events of two contacts: the sink has marked the second's."""
    step = transition(1, "running", None, {"attempts": 1, "of_another_contact": True}, contact_id=OTHER)
    assert step.title == "attempt 1 begins"
    assert any("another contact's id" in line and OTHER in line for line in step.details)


def test_events_that_move_to_another_job_are_told_together() -> None:
    rows = [
        trace(E1), trace(E2),
        *(trace(one, 12, {}, stage="execute", job_id=OTHER, seq=8) for one in (E1, E2)),
    ]  # fmt: skip
    steps = told(Evidence(E1, ["event"], event_ids=[E1, E2], trace=rows)).steps
    (moved,) = [step for step in steps if step.what == "moved"]
    assert (moved.title, moved.details, moved.events) == (
        "another job answers for it", [f"job {OTHER}"], [E1, E2],
    )  # fmt: skip
    assert [step.what for step in steps].count("decided") == 1


def test_orders_and_alerts_stand_where_they_happened() -> None:
    orders = [OrderRow(after(9), "hold", "the customer calls", "ana"), OrderRow(after(10), "odd", None, None)]
    alerts = [
        AlertRow("i1", "A IA tentou", "open", 3, after(11), None),
        AlertRow("i2", "A IA tentou", "ack", 1, after(12), None),
        AlertRow("i3", "A IA tentou", "resolved", 1, after(13), after(14)),
    ]
    steps = told(Evidence(JOB, ["job"], jobs=[job()], orders=orders, alerts=alerts)).steps
    assert [(step.what, step.title) for step in steps] == [
        ("order", "ordered to be held"), ("order", "ordered odd"),
        *[("alert", "an alert opens: A IA tentou")] * 3,
    ]  # fmt: skip
    assert steps[0].details == ["by ana", "the customer calls"]
    assert [step.details for step in steps[2:]] == [
        ["told 3 times so far", "open: `rajada alerts`, i1"],
        ["acknowledged, not resolved yet"],
        [f"resolved at {clock(after(14).astimezone())}"],
    ]


def test_who_requeued_or_dropped_a_letter_stands_where_it_happened() -> None:
    settled = [
        SettledRow(after(9), "dropped", JOB, 0, "ana@ops", "test data", "dispatch.dead/3/17"),
        SettledRow(after(10), "requeued", JOB, 1_790_000_000_000, None, None, "dispatch.dead/3/17"),
        SettledRow(after(11), "lost", JOB, 0, "x", None, "dispatch.dead/3/18"),
    ]
    steps = told(Evidence(JOB, ["job"], jobs=[job()], settled=settled)).steps
    assert [(step.what, step.title, step.level) for step in steps] == [
        ("settled", "its dead letter is dropped: nobody will be answered for it", "stop"),
        ("settled", "its dead letter is requeued", "info"),
        ("settled", "its dead letter is lost", "info"),
    ]
    assert [step.details for step in steps[:2]] == [
        ["by ana@ops", "test data", "dispatch.dead/3/17"],
        ["by nobody named, run 1790000000000", "dispatch.dead/3/17"],
    ]


def test_a_held_or_waiting_job_says_what_for() -> None:
    def now(outcome: str, **columns: object) -> str:
        row = trace(None, 3, {}, stage="execute", outcome=outcome, status="pending")
        return told(Evidence(JOB, ["job"], jobs=[job(**columns)], trace=[row])).now[-1].text

    assert now("held:no_engine", run_after=None).startswith("is held (no agent engine is named) until")
    assert now("retry:session_not_working", run_after=after(65)).endswith(
        "(the channel session does not work)"
    )
    assert now("released", run_after=None).startswith("is held until")


def test_a_job_that_could_run_says_who_has_paused_it() -> None:
    def now(paused: dict[str | None, str]) -> tuple[str, str]:
        story = told(Evidence(JOB, ["job"], jobs=[job(run_after=after(0), attempts=0)], paused=paused))
        return story.now[-1].state, story.now[-1].text

    organization = job().organization_id
    assert now({}) == ("ready", "waits for its turn to run")
    assert now({"another": "since then"})[0] == "ready"
    assert now({organization: "since 12:00 by ana"}) == (
        "paused",
        "waits: its organization is paused since 12:00 by ana; "
        f"`rajada resume --organization {organization}` lets it go on",
    )
    assert now({None: "since 12:00 by ana", organization: "x"})[1] == (
        "waits: everything is paused since 12:00 by ana; `rajada resume` lets it go on"
    )
