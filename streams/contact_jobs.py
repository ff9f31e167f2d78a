"""The record of one contact's jobs: the value of the jobs table and of its changelog (pure).

It holds the heads of the contact's jobs (`streams.heads`) and what is to be told of orders that met no job.
Heads of jobs that ended a while ago are kept as text (`Past`); no record looks different for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import msgspec

from schemas.codec import self_contained
from schemas.records import Job
from streams.heads import Head, Origin, Send, State, place_of


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


def _by_order(one: tuple[str, Head]) -> int:
    return one[1].order


_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(ContactJobs)
_heads_decoder = msgspec.json.Decoder(dict[str, Head])


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
