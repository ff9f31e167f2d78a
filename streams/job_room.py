"""How much one contact's record may hold, so that a flood of one contact does not end its worker (pure).

All jobs of a contact are one record of a changelog, written anew with every change, so it has to stay far
below what Kafka takes. Turns that wait merge before they pile up (`streams.merging`). What
does not merge, such as held jobs or retries of an engine that is away, is kept up to `MOST_BYTES`; a job that
would go beyond is given up with an alert, before it is in anybody's lane. Half of what the topic takes is
left free: for the outcomes that a merge names, and for a job's next record beside the job.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from schemas.dead import Header
from schemas.records import Command
from streams.contact_jobs import ContactJobs, encode_jobs
from streams.heads import Head, State

MOST_WAITING: Final = 100
"""Waiting jobs of a contact, at every further so many of which those that can be one become one."""
MOST_BYTES: Final = 8 * 1024 * 1024
"""Of a contact's record, as it is written."""
MOST_JOB_BYTES: Final = 1024 * 1024
"""Of a job's record: key, value and headers. It is in the contact's record and, when it is tried again, in
two more that lie there until they are sent."""

FULL: Final = "contact_full"
TOO_LARGE: Final = "job_too_large"

_PER_HEAD: Final = 700
"""Of a head and what is told of it, besides the job."""


@dataclass(frozen=True, slots=True)
class Room:
    """The limits; others than the usual ones are for tests."""

    waiting: int = MOST_WAITING
    size: int = MOST_BYTES
    job_size: int = MOST_JOB_BYTES
    patience_s: float = 5.0
    """A full record gets so long for what is still to be sent: that is in it, too."""


class Filling:
    """One contact's record while a batch is taken in: measured once, and counted on from there."""

    __slots__ = ("changed", "jobs", "room", "size", "waiting")

    def __init__(self, jobs: ContactJobs, room: Room) -> None:
        self.jobs = jobs
        self.room = room
        self.changed = False
        self.measure()

    @property
    def has_unsent(self) -> bool:
        """Whether outcomes or further records lie in it."""
        return bool(self.jobs.unsent) or any(head.unsent for head in self.jobs.heads.values())

    def measure(self) -> None:
        """Look at what is there."""
        self.size = len(encode_jobs(self.jobs))
        self.waiting = sum(head.state is State.WAITING for head in self.jobs.heads.values())

    def refuses(self, size: int) -> str | None:
        """Why a record of so many bytes does not go in: `code: in words`; None: there is room."""
        if size > self.room.job_size:
            return f"{TOO_LARGE}: its record has {size:,} bytes, above {self.room.job_size:,}"
        if self.size + _in_json(size) > self.room.size:
            left = sum(not head.state.ended for head in self.jobs.heads.values())
            return f"{FULL}: {left:,} jobs of this contact have not ended, no more are kept"
        return None

    def took(self, size: int, head: Head) -> bool:
        """A job went in; whether it is time to merge what waits (then `measure` again)."""
        self.changed = True
        self.size += _in_json(size)
        self.waiting += head.state is State.WAITING
        crowd = self.room.waiting
        return head.state is State.WAITING and self.waiting >= crowd and self.waiting % crowd == 0


def size_of(key: bytes, value: bytes, headers: Iterable[Header]) -> int:
    """Bytes of a record."""
    return len(key) + len(value) + sum(len(name) + len(given or b"") for name, given in headers)


def refuses_order(jobs: ContactJobs, command: Command, room: Room) -> str | None:
    """Why an order is not carried out now; None: it is. What makes a record smaller always is."""
    brought = len(command.job or b"")
    if brought > room.job_size:
        return f"the job has more than {room.job_size:,} bytes: it can't be run"
    if command.action in ("cancel", "forget", "settle"):
        return None
    head = jobs.heads.get(command.job_id or "")
    told = len(head.job) if head is not None else 0
    if len(encode_jobs(jobs)) + _in_json(brought + told) > room.size:
        return "too many jobs of this contact have not ended: cancel some, or wait until some have"
    return None


def _in_json(size: int) -> int:
    """Of a head with a job of so many bytes, which are written in base64."""
    return _PER_HEAD + -(-size // 3) * 4
