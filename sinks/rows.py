"""What the sink's statements take: one struct a row, given as a JSON array. Pure.

Fields that are null stay out of the JSON: a batch has thousands of rows.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import msgspec
from msgspec import Struct


class EventRow(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What `sink_events.sql` takes."""

    event_id: str
    organization_id: str
    contact_id: str | None = None
    """Whose event it is taken for; a row of another contact stays as it is. None: nobody says."""
    replay: int
    seq: int
    status: str
    outcome: str | None = None
    job_id: str | None = None
    attempts: int
    last_error: str | None = None
    next_attempt_at_ms: int | None = None
    moved: bool = False
    """It went over to another job: nothing else of its row changes."""


class JobRow(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What `sink_jobs.sql`, `sink_jobs_handed_over.sql` and `sink_group_links.sql` take."""

    id: str
    organization_id: str
    contact_id: str | None = None
    kind: str
    source_event_id: str
    payload: str
    status: str
    """As in `job_queue`; a held job is pending."""
    priority: int
    run_after_ms: int | None = None
    """None: never, since it is held."""
    attempts: int
    max_attempts: int
    last_error: str | None = None
    locked_at_ms: int | None = None
    """When the run began that goes on."""
    created_at_ms: int
    replay: int
    seq: int
    provider_message_id: str | None = None
    made: bool = False
    """It was made just now, so it has no row yet."""
    at_ms: int | None = None
    """Of those that the CRM's workers run: when it was told."""


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
    facts: str | None = None
    """JSON."""


class TroubleRow(Struct, frozen=True, gc=False, kw_only=True, omit_defaults=True):
    """What `sink_troubles.sql` takes: what an alert is about and that is not over yet."""

    about: str
    """event, job or condition."""
    id: str
    """Of the event or job; a condition's name."""
    kind: str
    title: str
    organization_id: str | None = None
    body: str
    ref_kind: str | None = None
    ref_id: str | None = None
    replay: int = 0
    seq: int = 0
    said_at_ms: int
    lasts_s: int | None = None
    """It is over unless it is told again within so many seconds; None: it lasts until it has healed."""


class CureRow(Struct, frozen=True, gc=False):
    """What `sink_cures.sql` takes: jobs of an organization are done again since then."""

    organization_id: str
    kind: str
    """Of the alerts that are over with it."""
    at_ms: int


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
    since: datetime | None = None
    """Since when it lasts; None = now."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of one transaction, each event and each job once a contact.

    An id is one contact's: of several that use it, the statements let one have the row.
    """

    events: list[EventRow] = field(default_factory=list)
    settled: list[EventRow] = field(default_factory=list)
    """Events of which stop 0 found the job: their rows, where these are open still (`sink_settle.sql`)."""
    jobs: list[JobRow] = field(default_factory=list)
    """Those that are not running: written first, since a contact may have one running row only."""
    running: list[JobRow] = field(default_factory=list)
    handed_over: list[JobRow] = field(default_factory=list)
    """Those that the CRM's workers run."""
    group_links: list[JobRow] = field(default_factory=list)
    traces: list[TraceRow] = field(default_factory=list)


def as_json(rows: Iterable[Struct]) -> str:
    """Rows as the JSON array that the statements take."""
    return msgspec.json.encode(list(rows)).decode()
