"""What a due window asks, and what the database tells of it: what a decision is made of (pure).

`streams.decide` turns the two into a decision (spec/dispatch.md, step 4).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from settings import DEFAULT_ALLOWLIST_TTL_DAYS, RajadaError
from streams.eligibility import EligibilityFacts
from streams.followup import FollowupFacts


class AskedEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a window; ids are lower-case UUIDs."""

    event_id: str
    message_id: str
    time_ms: int
    """Event time, ms since the epoch."""
    replay: int = 0


@dataclass(frozen=True, slots=True)
class Question:
    """What one due window asks. Times in ms since the epoch, by the worker's clock."""

    organization_id: str
    conversation_id: str
    contact_id: str
    """Of the payloads: one and the same for a whole window, since it is part of the key."""
    channel_session_id: str
    """Of the newest event's payload."""
    events: tuple[AskedEvent, ...]
    """In the order of the log."""
    now_ms: int
    deadline_ms: int
    """The window's own deadline: it waits for media until 120 s later at most."""
    superseded_since_ms: int | None = None
    """When this conversation was first superseded without a job since."""
    max_wait_ms: int = 30_000
    """Superseded for longer than this, the conversation gets its job (no starvation)."""
    again: bool = False
    """Asked by `replay --again`: stops 0 and 5 don't count."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A statement that failed for this one window: what it would tell is left open."""

    error: str
    """SQLSTATE or class of the error; no content."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What the database said of one question, at the moment of the decision."""

    db_now_ms: float
    """The database's clock, ms since the epoch."""
    organization_status: str | None
    """None: no such organization."""
    dispatch_mode: str | None
    """`settings.ai_dispatch_mode` where it is a text."""
    conversation_found: bool
    is_group: bool | None
    agent_can_execute: bool
    """An agent or a router serves the session (stop 4)."""
    assisted: bool
    """One of those agents works in assisted mode: stop 7 doesn't count (b070)."""
    latest_message_id: str | None
    """Of the conversation's inbound messages; None: it has none."""
    unread_media_created_ms: float | None
    """When the newest unread file among the conversation's newest 20 came; None: none is unread."""
    contact_found: bool
    """The payload's contact is in the organization."""
    known: Mapping[str, str | None]
    """Events that have an outcome already, each with the job that has it, where one does (stop 0)."""
    followup: FollowupFacts | Unreadable
    eligibility: EligibilityFacts | Unreadable | None
    """None: the conversation has no contact or session to look at, so there is no verdict (b067)."""
    of_others: Mapping[str, str | None] = field(default_factory=dict)
    """Events whose id belongs to another contact of the organization, each with its job, where there is one.
    Somebody produced them by hand with an id that was taken."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The installation's settings that decisions depend on."""

    allowlist_ttl_days: float = DEFAULT_ALLOWLIST_TTL_DAYS
    media_recheck_ms: int = 4_000
    event_max_age_s: float | None = None
    """Stop 9; None: off."""


class DatabaseAway(RajadaError):
    """Nothing can be decided now: Postgres is unreachable, shutting down or out of resources.

    Windows wait and spend no attempt (spec/dispatch.md, Failures in step 4).
    """
