"""What happened, as steps of a timeline, in words (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ops.moments import clock, local, span
from ops.reasons import WARNINGS, reason
from ops.why.evidence import EventRow, Evidence, Letter, SettledRow, SweptRow, TraceRow
from ops.why.job_steps import alert_step, job_step, moved_step, order_step
from ops.why.step import Level, Step, milliseconds
from streams.freezing import MAX_ATTEMPTS


def steps_of(evidence: Evidence) -> list[Step]:
    """Everything that happened, in its order."""
    steps = [
        *(_arrived(row, several=len(evidence.event_ids) > 1) for row in evidence.events),
        *(step for row in evidence.swept for step in _swept(row)),
        *_traced(evidence.trace, {job.id: job.events for job in evidence.jobs}),
        *(_letter(letter) for letter in evidence.letters),
        *map(order_step, evidence.orders),
        *map(_settled, evidence.settled),
        *map(alert_step, evidence.alerts),
    ]
    steps.sort(key=lambda step: (step.at_ms, _ORDER.get(step.what, 9)))
    return steps


_ORDER: Final = {
    "arrived": 0,
    "window_opened": 1,
    "swept": 2,
    "failed": 3,
    "decided": 4,
    "order": 5,
    "job": 6,
}
"""Of what happened in the same millisecond."""


def _arrived(row: EventRow, *, several: bool) -> Step:
    return Step(
        at_ms=milliseconds(row.created_at),
        what="arrived",
        title="written to the event log",
        level="begin",
        details=[f"message {row.message_id}"] if several and row.message_id else [],
        events=[row.id],
    )


def _swept(row: SweptRow) -> Iterable[Step]:
    first, last = milliseconds(row.first_swept_at), milliseconds(row.last_swept_at)
    title = "published again by the sweep: it was pending for too long"
    yield Step(at_ms=first, what="swept", title=title, level="warn", events=[row.event_id])
    if row.sweeps > 1:
        title = f"published again for the {_ordinal(row.sweeps)} time"
        yield Step(at_ms=last, what="swept", title=title, level="warn", events=[row.event_id])


def _letter(letter: Letter) -> Step:
    return Step(
        at_ms=letter.at_ms,
        what="dead_letter",
        title=f"dead letter: {reason(letter.reason).title}",
        level="dead",
        details=[
            f"{letter.topic} [{letter.partition}] offset {letter.offset:,}, from the stage {letter.stage}",
            *([letter.message] if letter.message else []),
            *_advice(letter.reason),
        ],
        events=[letter.event_id] if letter.event_id else [],
        outcome=letter.reason,
    )


_SETTLED: Final[Mapping[str, tuple[str, Level]]] = {
    "requeued": ("its dead letter is requeued", "info"),
    "parked": ("its dead letter is parked: it died after three replays", "stop"),
    "dropped": ("its dead letter is dropped: nobody will be answered for it", "stop"),
    "erased": ("its dead letter is erased: the contact was forgotten", "stop"),
}


def _settled(row: SettledRow) -> Step:
    title, level = _SETTLED.get(row.how, (f"its dead letter is {row.how}", "info"))
    details = [f"by {row.by_whom or 'nobody named'}" + (f", run {row.replay}" if row.replay else "")]
    details += [row.reason] if row.reason else []
    details.append(row.letter)
    return Step(
        at_ms=milliseconds(row.at), what="settled", title=title, level=level, details=details, outcome=row.how
    )


def _traced(rows: Sequence[TraceRow], sizes: Mapping[str, int]) -> Iterable[Step]:
    """What the trace tells; events that share a fate share a step. `sizes`: events of each job."""
    together: dict[tuple[object, ...], list[TraceRow]] = {}
    for row in rows:
        about = None if row.event_id else row.job_id
        key = (row.at, row.replay, row.stage, row.status, row.outcome, row.job_id, about)
        together.setdefault(key, []).append(row)
    opened: set[object] = set()
    for alike in together.values():
        row = alike[0]
        if row.event_id is None:
            # that a job was made is told with its events
            if row.stage != "decide" or not any(
                other.event_id and other.job_id == row.job_id for other in rows
            ):
                yield job_step(row)
            continue
        if row.stage == "execute" and row.outcome == "job":
            yield moved_step(alike)
            continue
        window = _window_step(alike)
        if window is not None and (window.at_ms, window.title) not in opened:
            opened.add((window.at_ms, window.title))
            yield window
        yield _event_step(alike, sizes.get(row.job_id or "", len(alike)))


def _window_step(rows: Sequence[TraceRow]) -> Step | None:
    facts = rows[0].facts or {}
    opened, deadline, length = (facts.get(name) for name in ("opened_ms", "deadline_ms", "length_ms"))
    if not (isinstance(opened, int) and isinstance(deadline, int) and isinstance(length, int)):
        return None
    if length:
        title = f"its window of {span(deadline - opened)} opens, up to {clock(local(deadline))}"
    else:
        title = "no window: answered at once"
    again = ["made by replay --again"] if facts.get("again") else []
    return Step(at_ms=opened, what="window_opened", title=title, details=again, events=_events(rows))


def _event_step(rows: Sequence[TraceRow], messages: int) -> Step:
    row, facts = rows[0], rows[0].facts or {}
    events, at_ms = _events(rows), milliseconds(row.at)
    details = [f"replay {row.replay}"] if row.replay else []
    attempts = facts.get("attempts")
    if row.status == "pending":
        next_ms = facts.get("next_attempt_at_ms")
        if isinstance(next_ms, int):
            details.append(f"looked at again at {clock(local(next_ms))}")
        title = f"the decision failed (attempt {attempts} of {MAX_ATTEMPTS}): {facts.get('last_error')}"
        return Step(at_ms=at_ms, what="failed", title=title, level="warn", details=details, events=events)
    name = row.outcome or ""
    known = reason(name)
    if known.meaning:
        details.append(known.meaning)
    details += _facts(row, facts)
    if row.status == "dead":
        details = [*details, *_advice(name)]
        title = f"given up after {attempts} attempts: {known.title}"
        return Step(
            at_ms=at_ms,
            what="decided",
            title=title,
            level="dead",
            details=details,
            events=events,
            outcome=name,
        )
    level: Level = "good" if name == "job" else "info" if name == "deduplicated" else "stop"
    title = f"one job for {_count(messages, 'message')}" if name == "job" else known.title
    if level == "stop":
        details += _advice(name)
    return Step(
        at_ms=at_ms, what="decided", title=title, level=level, details=details, events=events, outcome=name
    )


def _facts(row: TraceRow, facts: Mapping[str, object]) -> list[str]:
    """The facts of a decision, a line each."""
    told: list[str] = []
    deadline = facts.get("deadline_ms")
    if isinstance(deadline, int) and row.stage == "decide":
        late = milliseconds(row.at) - deadline
        told.append(
            f"{span(late)} after the window's end" if late >= 0 else "before the window's end: it was full"
        )
    because = facts.get("because")
    if isinstance(because, dict):
        told += [_seen(str(name), value) for name, value in because.items()]
    warnings = facts.get("warnings")
    if isinstance(warnings, list):
        told += [f"warning: {WARNINGS.get(str(one), str(one))}" for one in warnings]
    jobs = facts.get("jobs")
    if isinstance(jobs, dict) and row.event_id in jobs and jobs[row.event_id]:
        told.append(f"its job is {jobs[row.event_id]}")
    others = facts.get("of_another_contact")
    if isinstance(others, list) and row.event_id in others:
        told.append("the event's id is another contact's: who wrote it by hand used one that was taken")
    if row.outcome == "job" and row.job_id:
        told.append(f"job {row.job_id}")
    for name in ("what", "last_error"):
        if facts.get(name):
            told.append(str(facts[name]))
    return told


def _advice(name: str) -> list[str]:
    known = reason(name)
    return [f"→ {known.advice}"] if known.advice else []


def _events(rows: Iterable[TraceRow]) -> list[str]:
    return [row.event_id for row in rows if row.event_id is not None]


def _seen(name: str, value: object) -> str:
    """`organization status: suspended`, `is group: yes`, `age: 1 min 30 s`."""
    words = str(value)
    if value is None:
        words = "none"
    elif isinstance(value, bool):
        words = "yes" if value else "no"
    elif isinstance(value, int) and name.endswith("_ms"):
        words = span(value)
    return f"{name.removesuffix('_ms').replace('_', ' ')}: {words}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _ordinal(number: int) -> str:
    ending = "th" if 10 <= number % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
    return f"{number}{ending}"
