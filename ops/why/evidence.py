"""What is known of an id: plain data, as Postgres and Kafka told it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from streams.contact import Contact

Kind = Literal["event", "job", "message", "contact"]


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row of `event_log`, as `why_events.sql` gives it."""

    id: str
    organization_id: str
    contact_id: str | None
    conversation_id: str | None
    message_id: str | None
    event_type: str
    status: str
    outcome: str | None
    job_id: str | None
    attempts: int
    last_error: str | None
    next_attempt_at: datetime | None
    consumed_by: Sequence[str]
    created_at: datetime
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class JobRow:
    """A row of `job_queue`, as `why_jobs.sql` gives it."""

    id: str
    organization_id: str
    contact_id: str | None
    conversation_id: str | None
    message_id: str | None
    kind: str
    status: str
    attempts: int
    max_attempts: int
    last_error: str | None
    locked_by: str | None
    locked_at: datetime | None
    run_after: datetime | None
    """None: never by itself, since it is held."""
    created_at: datetime
    events: int


@dataclass(frozen=True, slots=True)
class TraceRow:
    """A row of `rajada.trace`, as `why_trace.sql` gives it."""

    at: datetime
    organization_id: str | None
    contact_id: str | None
    conversation_id: str | None
    message_id: str | None
    event_id: str | None
    job_id: str | None
    replay: int
    seq: int
    stage: str
    status: str | None
    outcome: str | None
    facts: Mapping[str, object] | None


@dataclass(frozen=True, slots=True)
class OrderRow:
    """A row of `rajada.orders`, as `why_orders.sql` gives it."""

    at: datetime
    action: str
    reason: str | None
    ordered_by: str | None


@dataclass(frozen=True, slots=True)
class SettledRow:
    """What a person did with a dead letter, as `why_settled.sql` gives it."""

    at: datetime
    how: str
    """requeued, parked, dropped or erased."""
    about: str
    """The event or job."""
    replay: int
    by_whom: str | None
    reason: str | None
    letter: str


@dataclass(frozen=True, slots=True)
class AlertRow:
    """An inbox item about an event or a job, as `why_alerts.sql` gives it."""

    id: str
    title: str
    status: str
    occurrences: int
    created_at: datetime
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True)
class SweptRow:
    """A row of `rajada.swept`, as `why_swept.sql` gives it."""

    event_id: str
    sweeps: int
    first_swept_at: datetime
    last_swept_at: datetime
    next_sweep_at: datetime


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, by its headers."""

    topic: str
    partition: int
    offset: int
    at_ms: int
    reason: str
    stage: str
    message: str
    event_id: str | None
    attempt: int | None


@dataclass(frozen=True, slots=True)
class Live:
    """What the worker remembers of a contact, read from its changelog, and how far everybody is."""

    contact: Contact | None
    """None: nothing, it was forgotten or never known."""
    partition: int
    unread: int
    """Records of the contact's source partition that the worker has yet to read."""
    written_below: int
    """The sink has written the outcomes of this partition below."""


@dataclass(slots=True)
class Evidence:
    """All that was found."""

    asked: str
    kinds: Sequence[Kind] = ()
    organization_id: str | None = None
    contact_id: str | None = None
    events: list[EventRow] = field(default_factory=list)
    event_ids: list[str] = field(default_factory=list)
    """Also of events without a row."""
    jobs: list[JobRow] = field(default_factory=list)
    trace: list[TraceRow] = field(default_factory=list)
    swept: list[SweptRow] = field(default_factory=list)
    orders: list[OrderRow] = field(default_factory=list)
    """To the jobs."""
    settled: list[SettledRow] = field(default_factory=list)
    """What people did with their dead letters."""
    alerts: list[AlertRow] = field(default_factory=list)
    letters: list[Letter] = field(default_factory=list)
    paused: Mapping[str | None, str] = field(default_factory=dict)
    """Organization (None: everything) → since when, and by whom, its jobs are paused."""
    live: Live | None = None
    """None: it could not be read; `notes` says why."""
    looked_at: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def found(self) -> bool:
        """Whether anything is known of the id."""
        return bool(self.kinds or self.events or self.jobs or self.trace or self.letters or self.settled)


def is_of(evidence: Evidence, organization_id: str) -> bool:
    """Whether all that was found is of one organization: where two are named, it is told to neither."""
    rows: list[TraceRow | JobRow | EventRow] = [*evidence.trace, *evidence.jobs, *evidence.events]
    named = {row.organization_id for row in rows} - {None}
    return evidence.organization_id == organization_id and named <= {organization_id}
