"""The records that are ours, as plain typed data (spec/dispatch.md steps 5 to 7, spec/jobs.md "Job heads").

Field for field the same as the Avro schemas beside this module; `schemas.codec` turns one into the
other. Ids are lower-case canonical UUID text, times are Unix milliseconds.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

RunBy = Literal["lanes", "table"]
"""Who runs a job (spec/dispatch.md, "Who runs the jobs"): our lanes, or the CRM's own workers."""


class EventRef(Struct, frozen=True, gc=False):
    """An event as a job carries it: its id and the replay number it arrived with (0 = the original)."""

    event_id: str
    replay: int = 0


class Job(Struct, frozen=True, gc=False, kw_only=True):
    """One job, whole: what `dispatch.jobs` carries and what its row in `job_queue` is made of."""

    id: str
    organization_id: str
    contact_id: str | None = None
    kind: str
    source_event_id: str
    replay: int = 0
    seq: int
    copy: int = 0
    attempt: int = 0
    max_attempts: int = 5
    priority: int = 100
    created_at_ms: int
    run_after_ms: int
    payload: str
    """JSON object, as text."""
    run_by: RunBy = "lanes"
    """Fixed when the job is made, so that a changed setting never gives one job to both."""
    events: tuple[EventRef, ...]


class EventOutcome(Struct, frozen=True, gc=False, kw_only=True):
    """One event of an outcome; it counts when (replay, seq) is above what Postgres holds."""

    event_id: str
    replay: int = 0
    seq: int
    attempts: int = 0


class Alert(Struct, frozen=True, gc=False, kw_only=True):
    """An inbox item to open, or to count up when one of the same organization, kind and title is open."""

    kind: str
    title: str
    body: str
    ref_kind: str | None = None
    ref_id: str | None = None


class Outcome(Struct, frozen=True, gc=False, kw_only=True):
    """What came of one window or of one step of a job; one record may speak for many events."""

    organization_id: str
    contact_id: str | None = None
    at_ms: int
    stage: str
    """Where it was decided: collect, decide, execute, …"""
    events: tuple[EventOutcome, ...]
    status: str
    """Of the events: pending, done or dead."""
    outcome: str | None = None
    """`job`, or the reason why there is none; None while pending."""
    job_id: str | None = None
    last_error: str | None = None
    """First line, at most 300 characters, masked (spec/dispatch.md, "Where we deliberately differ")."""
    next_attempt_at_ms: int | None = None
    facts: str | None = None
    """JSON object for the trace, as text."""
    job: Job | None = None
    """The whole job, when the outcome is about one."""
    job_status: str | None = None
    """pending, running, done, failed, dead or held."""
    alert: Alert | None = None
    result: str | None = None
    """JSON object, as text: what the job's handler gave back, such as a provider's message id."""


Action = Literal[
    "cancel", "run_now", "hold", "release", "requeue", "pause", "resume", "recover", "forget", "settle", "ask"
]
"""What a command orders (spec/jobs.md, "States")."""


class Command(Struct, frozen=True, gc=False, kw_only=True):
    """An order to one job, or (pause, resume) to all jobs of an organization or of everybody."""

    id: str
    """The same command twice is carried out once."""
    at_ms: int
    action: Action
    organization_id: str | None = None
    """`pause` and `resume`: None = every organization."""
    job_id: str | None = None
    """None for `pause`, `resume` and `forget`."""
    reason: str | None = None
    """Why; of `settle` the provider's message id."""
    issued_by: str | None = None
    replay: int = 0
    """`requeue`: the number of its run."""
    job: bytes | None = None
    """`requeue`, `recover`, `settle`: the value of the job's record, as it was or as its row tells."""
    replays: int = 0
    """`requeue`: how often it was replayed, this time included (counts towards parking)."""
