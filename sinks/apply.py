"""From outcomes to the rows of one transaction (design decision 9). Pure: no Kafka, no Postgres.

Of several outcomes of one event in a batch only the highest (replay, seq) is written to its row; the
trace gets each of them. Whether a row in Postgres is already further is for the statements to say.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import msgspec
from msgspec import Struct

from schemas.records import EventOutcome, Job, Outcome

DEDUPLICATED: Final = "deduplicated"
"""Says that an event was done before: it keeps what it had. A row that has nothing gets its job."""
GROUP_LINK: Final = "group_link_template"
"""Jobs of this kind have their row in group_link_dispatch_queue instead of job_queue."""


class EventRow(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What `sink_events.sql` takes."""

    event_id: str
    organization_id: str
    replay: int
    seq: int
    status: str
    outcome: str | None = None
    job_id: str | None = None
    attempts: int
    last_error: str | None = None
    next_attempt_at_ms: int | None = None


class JobRow(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What `sink_jobs.sql`, `sink_jobs_handed_over.sql` and `sink_group_links.sql` take."""

    id: str
    organization_id: str
    contact_id: str | None = None
    kind: str
    source_event_id: str
    payload: str
    status: str
    priority: int
    run_after_ms: int
    attempts: int
    max_attempts: int
    last_error: str | None = None
    at_ms: int
    created_at_ms: int
    replay: int
    seq: int
    facts: str | None = None


class TraceRow(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What `sink_trace.sql` takes; `n` is the outcome's place in the batch."""

    n: int
    at_ms: int
    organization_id: str | None = None
    contact_id: str | None = None
    conversation_id: str | None = None
    message_id: str | None = None
    event_id: str | None = None
    job_id: str | None = None
    replay: int
    seq: int
    stage: str
    status: str | None = None
    outcome: str | None = None
    attempts: int
    last_error: str | None = None
    next_attempt_at_ms: int | None = None
    facts: str | None = None


class _Place(Struct, gc=False):
    """The parts of a job's payload that the trace is found by."""

    conversation_id: str | None = None
    inbound_message_id: str | None = None


class _Found(Struct, gc=False):
    """The part of a deduplicated outcome's facts that names jobs."""

    jobs: dict[str, str | None] = {}


_found_decoder = msgspec.json.Decoder(_Found)
_place_decoder = msgspec.json.Decoder(_Place)
_facts_decoder = msgspec.json.Decoder(dict[str, msgspec.Raw])
_messages_decoder = msgspec.json.Decoder(dict[str, str])


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one transaction, each event and each job once."""

    events: list[EventRow] = field(default_factory=list)
    settled: list[EventRow] = field(default_factory=list)
    """Events of which stop 0 found the job: their rows, where these are open still (`sink_settle.sql`)."""
    jobs: list[JobRow] = field(default_factory=list)
    """Those that are not running: written first, since a contact may have one running row only."""
    running: list[JobRow] = field(default_factory=list)
    handed_over: list[tuple[int, JobRow]] = field(default_factory=list)
    """Those that the CRM's workers run, each with its outcome's place in the batch."""
    group_links: list[JobRow] = field(default_factory=list)
    traces: list[TraceRow] = field(default_factory=list)


def as_json(rows: Iterable[Struct]) -> str:
    """Rows as the JSON array that the statements take."""
    return msgspec.json.encode(list(rows)).decode()


def rows_of(outcomes: Sequence[Outcome]) -> Rows:
    """All rows of a batch; the trace rows name the outcome by its place in the batch."""
    rows = Rows()
    events: dict[tuple[str, str], EventRow] = {}
    jobs: dict[str, tuple[int, Outcome, Job]] = {}
    told: set[tuple[object, ...]] = set()
    for n, outcome in enumerate(outcomes):
        # an outcome without an organization is the platform's own, and no row is
        if outcome.outcome == DEDUPLICATED:
            rows.settled.extend(_settled(outcome))
        elif outcome.organization_id:
            for event in outcome.events:
                key = (outcome.organization_id, event.event_id)
                known = events.get(key)
                if known is None or (event.replay, event.seq) > (known.replay, known.seq):
                    events[key] = _event_row(outcome, event)
        job = outcome.job
        if job is not None:
            held = jobs.get(job.id)
            if held is None or (job.replay, job.seq) > (held[2].replay, held[2].seq):
                jobs[job.id] = (n, outcome, job)
        for trace in _trace_rows(n, outcome):
            identity = (trace.event_id, trace.job_id, trace.at_ms, trace.replay, trace.seq, trace.stage,
                        trace.outcome)  # fmt: skip
            if identity not in told:
                told.add(identity)
                rows.traces.append(trace)
    rows.events.extend(events.values())
    for n, outcome, job in jobs.values():
        row = _job_row(outcome, job)
        if row.kind == GROUP_LINK:
            rows.group_links.append(row)
        elif job.run_by == "table":
            rows.handed_over.append((n, row))
        else:
            (rows.running if row.status == "running" else rows.jobs).append(row)
    return rows


def _event_row(outcome: Outcome, event: EventOutcome) -> EventRow:
    return EventRow(
        event_id=event.event_id,
        organization_id=outcome.organization_id,
        replay=event.replay,
        seq=event.seq,
        status=outcome.status,
        outcome=outcome.outcome,
        job_id=outcome.job_id,
        attempts=event.attempts,
        last_error=outcome.last_error,
        next_attempt_at_ms=outcome.next_attempt_at_ms,
    )


def _settled(outcome: Outcome) -> Iterable[EventRow]:
    """The rows of events whose job stop 0 found."""
    try:
        found = _found_decoder.decode(outcome.facts or "{}").jobs
    except msgspec.DecodeError:
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
    return JobRow(
        id=job.id,
        organization_id=job.organization_id,
        contact_id=job.contact_id,
        kind=job.kind,
        source_event_id=job.source_event_id,
        payload=job.payload,
        status=outcome.job_status or "pending",
        priority=job.priority,
        run_after_ms=job.run_after_ms,
        attempts=job.attempt,
        max_attempts=job.max_attempts,
        last_error=outcome.last_error,
        at_ms=outcome.at_ms,
        created_at_ms=job.created_at_ms,
        replay=job.replay,
        seq=job.seq,
        facts=outcome.facts,
    )


def _trace_rows(n: int, outcome: Outcome) -> Iterable[TraceRow]:
    """One row an event, one for the job, and one for an outcome that is about neither."""
    job = outcome.job
    place = _place(job)
    conversation_id, messages, facts = _split(outcome.facts)

    def row(
        *,
        event: EventOutcome | None,
        job_id: str | None,
        replay: int,
        seq: int,
        status: str | None,
        attempts: int,
    ) -> TraceRow:
        return TraceRow(
            n=n,
            at_ms=outcome.at_ms,
            organization_id=outcome.organization_id or None,
            contact_id=outcome.contact_id,
            conversation_id=place.conversation_id or conversation_id,
            # A job answers its newest message; an event is about its own.
            message_id=messages.get(event.event_id) if event else place.inbound_message_id,
            event_id=event.event_id if event else None,
            job_id=job_id,
            replay=replay,
            seq=seq,
            stage=outcome.stage,
            status=status,
            outcome=outcome.outcome,
            attempts=attempts,
            last_error=outcome.last_error,
            next_attempt_at_ms=outcome.next_attempt_at_ms,
            facts=facts,
        )

    for event in outcome.events:
        yield row(
            event=event, job_id=outcome.job_id, replay=event.replay, seq=event.seq, status=outcome.status,
            attempts=event.attempts,
        )  # fmt: skip
    if job is not None:
        yield row(
            event=None, job_id=job.id, replay=job.replay, seq=job.seq, status=outcome.job_status or "pending",
            attempts=job.attempt,
        )  # fmt: skip
    elif not outcome.events:
        yield row(event=None, job_id=outcome.job_id, replay=0, seq=0, status=outcome.status, attempts=0)


def _split(facts: str | None) -> tuple[str | None, dict[str, str], str | None]:
    """Of a window's facts: the conversation, each event's message, and the facts without the messages."""
    if facts is None:
        return None, {}, None
    try:
        told = _facts_decoder.decode(facts)
        messages = _messages_decoder.decode(told.pop("messages", msgspec.Raw(b"{}")))
        conversation_id = msgspec.json.decode(told.get("conversation_id", b"null"), type=str | None)
    except msgspec.DecodeError:
        return None, {}, facts
    return conversation_id, messages, msgspec.json.encode(told).decode()


def _place(job: Job | None) -> _Place:
    if job is None:
        return _Place()
    try:
        return _place_decoder.decode(job.payload)
    except msgspec.DecodeError:  # also its subclass ValidationError: other kinds have other payloads
        return _Place()


@dataclass(frozen=True, slots=True)
class AlertRow:
    """One inbox item to open or to count up: what `sink_alert.sql` takes."""

    organization_id: str | None
    """None = the platform's own."""
    kind: str
    title: str
    body: str
    ref_kind: str | None
    ref_id: str | None
    occurrences: int


def alerts_of(outcomes: Sequence[Outcome], fresh: Collection[int]) -> list[AlertRow]:
    """The alerts of the outcomes whose places are in `fresh`, one a family, counted, in a fixed order.

    An outcome that was sent twice is fresh once, so it counts once. The order is the one in which the
    locks are taken: the same for everybody, so that two sinks can't wait for each other.
    """
    found: dict[tuple[str, str, str], AlertRow] = {}
    for n in sorted(fresh):
        outcome = outcomes[n]
        alert = outcome.alert
        if alert is None:
            continue
        key = (outcome.organization_id, alert.kind, alert.title)
        known = found.get(key)
        found[key] = AlertRow(
            organization_id=outcome.organization_id or None,
            kind=alert.kind,
            title=alert.title,
            # the first one's text: an open item keeps the ids of one example
            body=known.body if known else alert.body,
            ref_kind=known.ref_kind if known else alert.ref_kind,
            ref_id=known.ref_id if known else _uuid_or_none(alert.ref_id),
            occurrences=known.occurrences + 1 if known else 1,
        )
    return [found[key] for key in sorted(found)]


def _uuid_or_none(text: str | None) -> str | None:
    """The text if it is a UUID: the inbox's column holds nothing else, and the body names the rest."""
    try:
        return str(UUID(text)) if text else None
    except ValueError:
        return None
