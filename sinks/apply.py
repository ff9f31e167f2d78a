"""From outcomes to the rows of one transaction (design decision 9). Pure: no Kafka, no Postgres.

Of several outcomes of one event in a batch only the highest (replay, seq) is written to its row; the
trace gets each of them. What a statement may refuse because of a row's status takes nobody's place here: it
is written after it, in a round of its own, so that a batch comes to the same as its outcomes one by one.
Whether a row in Postgres is already further is for the statements to say, and so is whose it is: an id that
somebody used by hand under two contacts has outcomes of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from msgspec import Struct, structs

from schemas.kinds import GROUP_LINK
from schemas.records import EventOutcome, Job, Outcome
from sinks.rows import EventRow, JobRow, Rows
from sinks.traces import provider_message_id, trace_rows

DEDUPLICATED: Final = "deduplicated"
"""Says that an event was done before: it keeps what it had. A row that has nothing gets its job."""
HELD: Final = "held"
"""A job's status that the CRM's table doesn't know: pending, and never due."""
EXECUTE: Final = "execute"
"""Stage of what the executor tells."""
CONTROL: Final = "control"
"""Stage of what came of orders."""
HEALTH: Final = "health"
"""Stage of outcomes about the machine room: neither an event's nor a job's, and not for the trace."""


_EventKey = tuple[str, str | None, str]
"""Organization, contact, event."""


class _Found(Struct, gc=False):
    """The part of a deduplicated outcome's facts that names jobs."""

    jobs: dict[str, str | None] = {}


_found_decoder = msgspec.json.Decoder(_Found)


def rows_of(outcomes: Sequence[Outcome]) -> Rows:
    """All rows of a batch; the trace rows name the outcome by its place in the batch."""
    rows = Rows()
    events: dict[_EventKey, EventRow] = {}
    moved: dict[_EventKey, EventRow] = {}
    later: list[EventRow] = []
    jobs: dict[tuple[str, str | None], tuple[Outcome, Job]] = {}
    later_links: list[JobRow] = []
    told: set[tuple[object, ...]] = set()
    for n, outcome in enumerate(outcomes):
        if outcome.stage == HEALTH:
            continue
        # an outcome without an organization is the platform's own, and no row is
        if outcome.outcome == DEDUPLICATED:
            rows.settled.extend(_settled(outcome))
        elif outcome.organization_id:
            kept = moved if _moves(outcome) else events
            for event in outcome.events:
                key = (outcome.organization_id, outcome.contact_id, event.event_id)
                known = kept.get(key)
                if known is None or (event.replay, event.seq) > (known.replay, known.seq):
                    row = _event_row(outcome, event)
                    if known is not None and known.status == "done" != row.status:
                        later.append(row)
                    else:
                        kept[key] = row
        job = outcome.job
        if job is not None:
            held = jobs.get((job.id, job.contact_id))
            if held is None or (job.replay, job.seq) > (held[1].replay, held[1].seq):
                if held is not None and job.kind == GROUP_LINK and _is_told_again(outcome):
                    later_links.append(_job_row(outcome, job))
                else:
                    jobs[job.id, job.contact_id] = (outcome, job)
        for trace in trace_rows(n, outcome):
            identity = (trace.event_id, trace.job_id, trace.organization_id, trace.contact_id, trace.at_ms,
                        trace.replay, trace.seq, trace.stage, trace.outcome)  # fmt: skip
            if identity not in told:
                told.add(identity)
                rows.traces.append(trace)
    rows.events.extend([*_combined(events, moved), *later])
    _share_out(rows, jobs.values())
    rows.group_links.extend(later_links)
    return rows


def _share_out(rows: Rows, jobs: Iterable[tuple[Outcome, Job]]) -> None:
    """Each job's row to the statement that writes it."""
    running: list[JobRow] = []
    for outcome, job in jobs:
        row = _job_row(outcome, job)
        if row.kind == GROUP_LINK:
            rows.group_links.append(row)
        elif job.run_by == "table":
            rows.handed_over.append(structs.replace(row, at_ms=outcome.at_ms))
        elif row.status == "running":
            running.append(row)
        else:
            rows.jobs.append(row)
    # One statement can't see what it writes itself: of one contact the youngest run alone is tried there.
    newest: dict[str, JobRow] = {}
    for row in sorted(running, key=_begun, reverse=True):
        if row.contact_id is None or newest.setdefault(row.contact_id, row) is row:
            rows.running.append(row)
        else:
            rows.jobs.append(structs.replace(row, status="pending"))


def _begun(row: JobRow) -> tuple[int, str]:
    return row.locked_at_ms or 0, row.id


def _is_told_again(outcome: Outcome) -> bool:
    """Whether a job is told as it is when it is made, which makes none pending that runs or has ended."""
    return outcome.stage not in (EXECUTE, CONTROL) and outcome.job_status == "pending"


def _moves(outcome: Outcome) -> bool:
    """Whether a merge or a cover gives the events to another job: all else of them stays as it was."""
    return outcome.job is None and outcome.stage == EXECUTE


def _combined(
    events: Mapping[_EventKey, EventRow], moved: Mapping[_EventKey, EventRow]
) -> Iterable[EventRow]:
    """One row an event: what was decided, with the job that has it now."""
    for key, row in events.items():
        move = moved.get(key)
        if move is not None and (move.replay, move.seq) > (row.replay, row.seq):
            row = structs.replace(row, job_id=move.job_id, replay=move.replay, seq=move.seq)
        yield row
    yield from (move for key, move in moved.items() if key not in events)


def _event_row(outcome: Outcome, event: EventOutcome) -> EventRow:
    return EventRow(
        event_id=event.event_id,
        organization_id=outcome.organization_id,
        contact_id=outcome.contact_id,
        replay=event.replay,
        seq=event.seq,
        status=outcome.status,
        outcome=outcome.outcome,
        job_id=outcome.job_id,
        attempts=event.attempts,
        last_error=outcome.last_error,
        next_attempt_at_ms=outcome.next_attempt_at_ms,
        moved=_moves(outcome),
    )


def _settled(outcome: Outcome) -> Iterable[EventRow]:
    """The rows of events whose job stop 0 found."""
    try:
        found = _found_decoder.decode(outcome.facts or "{}").jobs
    except (msgspec.DecodeError, RecursionError):
        return
    for event in outcome.events:
        job_id = found.get(event.event_id)
        if job_id is not None and outcome.organization_id:
            yield EventRow(
                event_id=event.event_id,
                organization_id=outcome.organization_id,
                replay=event.replay,
                seq=event.seq,
                status="done",
                job_id=job_id,
                attempts=event.attempts,
            )


def _job_row(outcome: Outcome, job: Job) -> JobRow:
    status = outcome.job_status or "pending"
    return JobRow(
        id=job.id,
        organization_id=job.organization_id,
        contact_id=job.contact_id,
        kind=job.kind,
        source_event_id=job.source_event_id,
        payload=job.payload,
        status="pending" if status == HELD else status,
        priority=job.priority,
        run_after_ms=None if status == HELD else job.run_after_ms,
        attempts=job.attempt,
        max_attempts=job.max_attempts,
        last_error=outcome.last_error,
        locked_at_ms=outcome.at_ms if status == "running" else None,
        created_at_ms=job.created_at_ms,
        replay=job.replay,
        seq=job.seq,
        provider_message_id=provider_message_id(outcome.result),
        made=outcome.stage not in (EXECUTE, CONTROL),
    )
