"""The head of a job: what its contact's record (`streams.contact_jobs`) has of it (pure).

Where it stands, the whole job until it ends, and what it still has to send (spec/jobs.md, "Job heads"). A job
that was acknowledged lives here and nowhere else, so that a record of `dispatch.jobs` is never needed twice.

Records are JSON so that `kcat` shows them to a person. Fields are only ever added, with a default.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import msgspec

from schemas.codec import decode_job, is_job
from schemas.dead import Header
from schemas.records import Job

KEPT_MS: Final = 24 * 3600 * 1000
"""A head is kept so long after its job's end, and a command so long for a job that doesn't come."""
WHOLE_MS: Final = 10 * 60 * 1000
"""After that, the head of an ended job keeps only what a late record, an order or a question needs, and is
put away (`streams.contact_jobs.Past`). Its last start counts for rates and distances, which are seconds."""


class State(StrEnum):
    """Where a job stands."""

    AWAITED = "awaited"
    """A command came before the job: it waits for the job's record."""
    UNVERIFIED = "unverified"
    """Its record is older than a head is kept: its row is looked at before it runs."""
    WAITING = "waiting"
    """In its contact's lane."""
    RUNNING = "running"
    """Its attempt was made durable; the call is on its way or about to be."""
    DELAYED = "delayed"
    """Its next record is in the delay topics."""
    HELD = "held"
    """Kept until a person releases it."""
    DONE = "done"
    FAILED = "failed"
    """Cancelled, or vetoed for good: nobody is alarmed."""
    DEAD = "dead"
    """Given up: in `dispatch.dead`, with an alert."""

    @property
    def ended(self) -> bool:
        """Nothing runs any more; only a dead one can be taken up again, by a requeue."""
        return self in (State.DONE, State.FAILED, State.DEAD)


class Send(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A record that a transition named: sent as it stands here, however often."""

    topic: str
    """Name without prefix."""
    value: bytes | None
    headers: list[Header] | None = None


class Origin(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The record that the job came with (see `schemas.dead.Origin`)."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Unix ms."""
    headers: list[Header] = []


class Head(msgspec.Struct, omit_defaults=True, gc=False):
    """One job; times in Unix ms."""

    state: State
    order: int = 0
    """Rises with every job of the contact: the order of its lane."""
    job: bytes = b""
    """The value of the job's record; empty once it has ended."""
    origin: Origin | None = None
    kind: str = ""
    conversation_id: str | None = None
    session_id: str | None = None
    priority: int = 100
    replay: int = 0
    seq: int = 0
    copy: int = 0
    attempt: int = 0
    """Attempts spent; while it runs, the number of the running one."""
    run_after_ms: int = 0
    started_ms: int = 0
    """When its last attempt began."""
    ended_ms: int = 0
    """When it ended; of an awaited one: when it was spoken of first."""
    first_failed_ms: int = 0
    outcome: str | None = None
    held: str | None = None
    """Why it is held."""
    unseen: bool = False
    """Held before its row could be looked at: that is still to be done when it is released."""
    last_error: str | None = None
    looks: int = 0
    """Looks at a session that doesn't work, one after the other."""
    not_working_since_ms: int = 0
    alarmed: bool = False
    """The alert of its present trouble (session, credit, credentials) was raised."""
    handed_back: int = 0
    """Attempts that were cut short by a graceful stop and given back, one after the other."""
    hold: str | None = None
    """Reason of a hold that was ordered while it could not be held yet (running, awaited)."""
    cancel: str | None = None
    """Reason of a cancellation that was ordered before the job came."""
    doubts: int = 0
    """Attempts of which nobody knows whether they took effect (group links)."""
    unsent: list[Send] = []
    """What the transitions so far named and nobody has confirmed as durable."""

    @property
    def is_known(self) -> bool:
        """Whether the job can be read here; else a newer version wrote its record (`streams.newer_jobs`)."""
        return not self.job or is_job(self.job)

    def shrink(self) -> bool:
        """Of a job that is done or failed: forget what only its run needed. Whether that was anything."""
        kept = (self.kind, self.conversation_id, self.session_id, self.started_ms, self.run_after_ms)
        if not any(kept):
            return False
        self.kind, self.conversation_id, self.session_id, self.started_ms, self.run_after_ms = (
            "",
            None,
            None,
            0,
            0,
        )
        return True

    def whole(self) -> Job:
        """The job as it stands now: its record's content with the head's numbers."""
        return msgspec.structs.replace(
            decode_job(self.job),
            replay=self.replay,
            seq=self.seq,
            copy=self.copy,
            attempt=self.attempt,
            run_after_ms=self.run_after_ms,
            priority=self.priority,
        )


class Place(msgspec.Struct, gc=False):
    """The parts of a job's payload that lanes go by."""

    conversation_id: str | None = None
    channel_session_id: str | None = None
    replay_of: str | None = None


_place_decoder = msgspec.json.Decoder(Place)


def place_of(job: Job) -> Place:
    """Conversation and session of a job; other kinds of payload have none."""
    try:
        return _place_decoder.decode(job.payload)
    except (msgspec.DecodeError, RecursionError):  # the former is ValidationError's base, too
        return Place()
