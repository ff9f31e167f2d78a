"""What the worker remembers of one contact's jobs: the value of the jobs table and of its changelog (pure).

One record a contact holds the heads of its jobs: where each stands, the whole job until it ends, and what
it still has to send (spec/jobs.md, "Job heads"). A job that was acknowledged lives here and nowhere else,
so that a record of `dispatch.jobs` is never needed twice.

Records are JSON so that `kcat` shows them to a person. Fields are only ever added, with a default.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec

from schemas.codec import decode_job, is_job, self_contained
from schemas.dead import Header
from schemas.records import Job

KEPT_MS: Final = 24 * 3600 * 1000
"""A head is kept so long after its job's end, and a command so long for a job that doesn't come."""


WHOLE_MS: Final = 10 * 60 * 1000
"""After that, the head of an ended job keeps only what a late record, an order or a question needs, and is
put away (`Past`). Its last start counts for rates and distances, which are seconds."""


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


def _by_order(one: tuple[str, Head]) -> int:
    return one[1].order


@dataclass(frozen=True, slots=True)
class Past:
    """Heads of jobs that ended a while ago, as the text that a record has of them.

    A contact that writes all day has hundreds of them. Nearly none is ever asked for again, and decoded each
    would weigh several times its text and be written anew with every transition.
    """

    text: bytes
    """Items of a JSON object, without its braces; never empty."""
    since_ms: int
    """When the first of them ended."""

    @classmethod
    def of(cls, heads: Mapping[str, Head]) -> Past | None:
        """These heads; None for none."""
        if not heads:
            return None
        return cls(_encoder.encode(heads)[1:-1], min(head.ended_ms for head in heads.values()))

    def heads(self) -> dict[str, Head]:
        """Job id → head."""
        return _heads_decoder.decode(b"{%b}" % self.text)

    def and_then(self, later: Past) -> Past:
        """These and others."""
        return Past(b"%b,%b" % (self.text, later.text), min(self.since_ms, later.since_ms))

    def may_have(self, job_id: str) -> bool:
        """False: there is surely no such job among them."""
        return _encoder.encode(job_id) + b":" in self.text

    def among(self, record: bytes) -> bytes:
        """A contact's record, with these among its heads."""
        if record.startswith(_HEADS):
            return b"%b%b,%b" % (_HEADS, self.text, record[len(_HEADS) :])
        rest = record[1:]
        return b"%b%b}%b%b" % (_HEADS, self.text, b"" if rest == b"}" else b",", rest)


_HEADS: Final = b'{"heads":{'


class ContactJobs(msgspec.Struct, omit_defaults=True, gc=False):
    """The record of one contact (or phone); under `PAUSES` the pauses of a partition instead."""

    heads: dict[str, Head] = {}
    """Job id → head, in the order in which they came; but for those that were put away."""
    commands: dict[str, int] = {}
    """Id of a command that was carried out → when, ms: the same one again does nothing."""
    next_order: int = 1
    unsent: list[Send] = []
    """What is to be told of commands to jobs that there is no head of."""
    paused: dict[str, str] = {}
    """Organization, or `EVERYBODY` → reason (only under `PAUSES`)."""
    past: Past | None = None
    """What was put away; in the record it stands among the heads."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to be remembered."""
        return not (self.heads or self.past or self.commands or self.unsent or self.paused)

    def head(self, job_id: str) -> Head | None:
        """A job's head. One that was put away is among the others from then on."""
        head = self.heads.get(job_id)
        if head is None and self.past is not None and self.past.may_have(job_id):
            past = self.past.heads()
            head = past.pop(job_id, None)
            if head is not None:
                self.heads[job_id] = head
                self.past = Past.of(past)
        return head

    def put_away(self, job_ids: Iterable[str]) -> None:
        """Keep the heads of these ended jobs as text only."""
        late = Past.of({job_id: self.heads.pop(job_id) for job_id in job_ids})
        if late is not None:
            self.past = late if self.past is None else self.past.and_then(late)

    def bring_back(self) -> None:
        """Have all heads among `heads`."""
        if self.past is not None:
            self.heads = {**self.past.heads(), **self.heads}
            self.past = None

    def waiting(self) -> Iterator[tuple[str, Head]]:
        """The jobs in the lane, oldest first."""
        return iter(sorted(self._in_the_lane(), key=_by_order))

    def following(self) -> tuple[str, Head] | None:
        """The oldest job in the lane."""
        return min(self._in_the_lane(), key=_by_order, default=None)

    def _in_the_lane(self) -> Iterator[tuple[str, Head]]:
        return ((job_id, head) for job_id, head in self.heads.items() if head.state is State.WAITING)

    def seat(self, head: Head, job: Job, value: bytes, origin: Origin) -> None:
        """Put a job, and the record that brought it, into its head, as the contact's newest.

        Its bytes are kept in the form that needs no registry: one that is away must not keep us from them.
        """
        place = place_of(job)
        head.order, self.next_order = self.next_order, self.next_order + 1
        head.job, head.origin, head.ended_ms = self_contained(value), origin, 0
        head.kind, head.priority = job.kind, job.priority
        head.conversation_id, head.session_id = place.conversation_id, place.channel_session_id


PAUSES: Final = b"#pauses"
"""Key of the record that holds a partition's pauses; no contact's key starts so."""
EVERYBODY: Final = "*"


class Place(msgspec.Struct, gc=False):
    """The parts of a job's payload that lanes go by."""

    conversation_id: str | None = None
    channel_session_id: str | None = None
    replay_of: str | None = None


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ContactJobs)
_heads_decoder = msgspec.json.Decoder(dict[str, Head])
_place_decoder = msgspec.json.Decoder(Place)


def place_of(job: Job) -> Place:
    """Conversation and session of a job; other kinds of payload have none."""
    try:
        return _place_decoder.decode(job.payload)
    except (msgspec.DecodeError, RecursionError):  # the former is ValidationError's base, too
        return Place()


def encode_jobs(jobs: ContactJobs) -> bytes:
    """The changelog value of a contact's jobs."""
    if jobs.past is None:
        return _encoder.encode(jobs)
    return jobs.past.among(_encoder.encode(msgspec.structs.replace(jobs, past=None)))


def decode_jobs(value: bytes) -> ContactJobs:
    """The contact's jobs in a changelog value; raises msgspec.DecodeError when the bytes are none."""
    try:
        return _decoder.decode(value)
    except RecursionError as error:
        raise msgspec.DecodeError("it is nested too deeply") from error
