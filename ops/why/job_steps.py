"""What happened to a job, transition by transition, in words (pure).

Each outcome of the executor is one transition (spec/jobs.md, "Job heads"): an attempt that begins, its
answer, a wait, a hold, an order, an end.
"""

from __future__ import annotations

from collections.abc import Mapping

from ops.moments import clock, day, local, span
from ops.reasons import STATES, reason
from ops.why.evidence import AlertRow, OrderRow, TraceRow
from ops.why.step import Level, Step, milliseconds

_ORDERS = {
    "cancel": "cancelled", "run_now": "to be run now", "hold": "to be held", "release": "released",
    "pause": "paused", "resume": "resumed", "requeue": "requeued", "recover": "taken up again",
    "settle": "settled", "ask": "to be told again",
}  # fmt: skip


def job_step(row: TraceRow) -> Step:
    """One transition of a job."""
    facts = row.facts or {}
    name, _, rest = (row.outcome or "").partition(":")
    title, level = _title(row, name, rest, facts)
    details = [f"job {row.job_id}"]
    details += [f"replay {row.replay}"] if row.replay else []
    details += _said(row, name, facts)
    return Step(
        at_ms=milliseconds(row.at), what="job", title=title, level=level, details=details, outcome=row.outcome
    )


def _title(row: TraceRow, name: str, rest: str, facts: Mapping[str, object]) -> tuple[str, Level]:
    attempt = facts.get("attempt")
    tried = f"attempt {attempt}" if attempt is not None and row.stage == "execute" else None
    if row.stage == "control" and row.seq == 0:  # of an order that changed nothing yet
        return reason(name).title, "info"
    if row.status == "running":
        return f"attempt {facts.get('attempts')} begins", "info"
    if name == "job" or (row.stage == "decide" and row.status == "pending"):
        return "the job is made", "info"
    if name in ("merged", "covered_by"):
        return f"ends: {reason(name).title} ({rest})", "stop"
    if row.status == "done":
        return (f"{tried}: answered{_after(facts)}" if tried else "the job is done"), "good"
    if name == "retry":
        return _retried(rest, tried, facts)
    if row.status == "dead":
        why = reason(rest or name or "dead").title
        spent = facts.get("attempts")
        return f"{_of(tried, facts)}the job is given up after {spent} attempts: {why}", "dead"
    if name == "held":
        return f"{_of(tried, facts)}the job is held: {_in_words(rest)}", "stop"
    if name in ("vetoed", "cancelled"):
        return f"{_of(tried, facts)}the job is {name}: {_in_words(rest)}", "stop"
    if name:
        return reason(row.outcome or name).title, "info"
    return f"the job {STATES.get(row.status or '', row.status or 'moves')}", "info"


def _retried(rest: str, tried: str | None, facts: Mapping[str, object]) -> tuple[str, Level]:
    why = reason(rest).title
    if tried is None:
        return f"the job has to wait: {why}", "warn"
    given_back = facts.get("attempt") != facts.get("attempts")
    if given_back:
        return f"{tried} does not count{_after(facts)}: {why}", "warn"
    return f"{tried} failed{_after(facts)}: {why}", "warn"


def _said(row: TraceRow, name: str, facts: Mapping[str, object]) -> list[str]:
    """The lines below a transition."""
    told: list[str] = []
    next_ms = facts.get("next_attempt_at_ms")
    if isinstance(next_ms, int) and row.status == "pending":
        when = local(next_ms)
        wait = next_ms - milliseconds(row.at)
        other_day = f" on {day(when)}" if when.date() != local(milliseconds(row.at)).date() else ""
        told.append(f"again at {clock(when)}{other_day}, {span(wait)} later")
    if "http_status" in facts and name != "done":
        told.append(f"HTTP {facts['http_status']}")
    if facts.get("last_error") and row.status != "running":
        told.append(str(facts["last_error"]))
    if facts.get("provider_message_id"):
        told.append(f"the provider's message: {facts['provider_message_id']}")
    if facts.get("by"):
        told.append(f"by {facts['by']}")
    if facts.get("of_another_contact") is True:
        told.append(
            "of a contact whose hand-made event has another contact's id: the job's row is that one's, and "
            f"says nothing of this one ({row.contact_id})"
        )
    if row.status in ("dead", "held") or name == "vetoed":
        advice = reason(row.outcome or "").advice
        told += [f"→ {advice}"] if advice else []
    return told


def moved_step(rows: list[TraceRow]) -> Step:
    """Events that went over to another job: merged or covered."""
    events = [row.event_id for row in rows if row.event_id is not None]
    return Step(
        at_ms=milliseconds(rows[0].at),
        what="moved",
        title="another job answers for it",
        level="good",
        details=[f"job {rows[0].job_id}"],
        events=events,
        outcome=rows[0].outcome,
    )


def order_step(order: OrderRow) -> Step:
    """An order that a person gave."""
    details = [f"by {order.ordered_by}"] if order.ordered_by else []
    details += [order.reason] if order.reason else []
    title = f"ordered {_ORDERS.get(order.action, order.action)}"
    return Step(at_ms=milliseconds(order.at), what="order", title=title, details=details)


def alert_step(alert: AlertRow) -> Step:
    """An inbox item about an event or a job."""
    details = [f"told {alert.occurrences:,} times so far"] if alert.occurrences > 1 else []
    if alert.status == "resolved" and alert.resolved_at is not None:
        details.append(f"resolved at {clock(alert.resolved_at.astimezone())}")
    elif alert.status == "ack":
        details.append("acknowledged, not resolved yet")
    else:
        details.append(f"open: `rajada alerts`, {alert.id}")
    return Step(
        at_ms=milliseconds(alert.created_at),
        what="alert",
        title=f"an alert opens: {alert.title}",
        level="warn",
        details=details,
    )


def _after(facts: Mapping[str, object]) -> str:
    took = facts.get("duration_ms")
    return f" after {span(took)}" if isinstance(took, int) else ""


def _of(tried: str | None, facts: Mapping[str, object]) -> str:
    return f"{tried}{_after(facts)}: " if tried else ""


def _in_words(rest: str) -> str:
    """A reason of ours in words; what a person or a server said as it is."""
    code = rest.partition(": ")[0]
    return reason(code).title if code and code == rest else rest or "no reason given"
