"""Where a dead letter goes when it is requeued, and as what (spec/jobs.md, "Dead letters"; pure).

An event, an outcome or an order goes back to the topic it came from, under its key. A job goes as a command
to the owner of its contact, who begins it anew under the same id. What was requeued too often is parked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID, uuid5

from schemas import delayed
from schemas.codec import encode_command
from schemas.dead import COPIED_FROM, MOST_REPLAYS, REPLAY, REPLAYS, Header, without_death
from schemas.records import Command, Job
from schemas.topic_names import CONTROL, DELAY, GROUP_LINKS, JOBS, OUTCOMES, PARKING, SOURCE
from streams.events import COMMIT_TIME
from streams.letters import COMMAND, OUTCOME, Letter

ORDERS: Final = UUID("3f3f2a52-6a0e-5c11-9d55-5a3a1f0b8e77")
"""Namespace of the ids of commands that follow from what they are about: given twice, carried out once."""

_BACK_TO: Final = (SOURCE, GROUP_LINKS, JOBS, OUTCOMES, CONTROL)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of `requeue`."""

    number: int
    """Its replay number."""
    now_ms: int
    by: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A record to be written: `topic` without prefix."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    at_ms: int = 0
    """The record's timestamp, Unix ms; 0 = when it is written."""
    partition: int = -1
    """Where to; -1: as the key says."""


@dataclass(frozen=True, slots=True)
class Stays:
    """The letter can't be requeued; `why` says what to do instead."""

    why: str


def requeued(letter: Letter, replays: int, source: str, run: Run, *, park: bool) -> Copy | Stays:
    """What a letter is requeued as.

    Args:
        letter: it.
        replays: how often it was requeued before.
        source: its place, for the copy's header: `<topic>/<partition>/<offset>`.
        run: who requeues.
        park: whether it is parked after too many replays; False: somebody asked for it by hand.
    """
    topic = goes_to(letter, replays, park=park)
    if isinstance(topic, Stays):
        return topic
    if topic == PARKING:
        kept = [one for one in letter.headers if one[0] != COPIED_FROM]
        return Copy(PARKING, letter.key, letter.value, [*kept, (COPIED_FROM, source.encode())])
    headers = _headers(letter, replays + 1, source, run)
    job = letter.content.record
    if isinstance(job, Job):
        return Copy(topic, _key(letter, job), _order(letter, job, replays + 1, source, run), headers)
    return Copy(topic, letter.key, letter.value, headers)


def goes_to(letter: Letter, replays: int, *, park: bool) -> str | Stays:
    """The topic (name without prefix) that a letter is requeued to; arguments as of `requeued`."""
    if not letter.is_original:
        return Stays(
            "its content is not here any more (erased, or cut since it was too large): "
            "have the event written anew"
        )
    if park and replays >= MOST_REPLAYS:
        return PARKING
    job = letter.content.record
    if isinstance(job, Job):
        if _key(letter, job) is None:
            return Stays("neither its key nor its content says whose job it is: look at who wrote it")
        return CONTROL
    topic = _was_to_go(letter) if f"{DELAY}." in letter.origin else way_back(letter.origin)
    if topic is None:
        told = letter.origin or "nobody wrote down where"
        return Stays(f"it came from {told}, which is no topic of Rajada: export it and look at its bytes")
    return topic


def way_back(origin: str) -> str | None:
    """The topic that a record goes back to; None: it came from none of ours.

    `origin` is the full name of where it came from. The prefix may be another installation's: letters are
    exported and imported when topics are made anew.
    """
    for name in _BACK_TO:
        if origin.endswith(name):
            return name
    # what a delay topic could not forward was on its way to the jobs
    return JOBS if f"{DELAY}." in origin else None


def _was_to_go(letter: Letter) -> str:
    """Where a delay topic could not forward a letter to: as its header says, else as its content does."""
    named = delayed.goes_to(letter.headers)
    if named is not None and named != JOBS:
        return named
    by_content = {OUTCOME: OUTCOMES, COMMAND: CONTROL, SOURCE: SOURCE, GROUP_LINKS: GROUP_LINKS}
    return by_content.get(letter.kind, JOBS)


def _headers(letter: Letter, replays: int, source: str, run: Run) -> list[Header]:
    """The original's, and which replay this is. The commit time stays that of the event's first life."""
    ours = (REPLAY, REPLAYS, COPIED_FROM)
    kept = [one for one in without_death(letter.headers) if one[0] not in ours]
    if letter.origin_ms is not None and not any(name == COMMIT_TIME for name, _ in kept):
        kept.append((COMMIT_TIME, str(letter.origin_ms).encode()))
    return [
        *kept,
        (REPLAY, str(run.number).encode()),
        (REPLAYS, str(replays).encode()),
        (COPIED_FROM, source.encode()),
    ]


def _key(letter: Letter, job: Job) -> bytes | None:
    return letter.key or (f"{job.organization_id}:{job.contact_id}".encode() if job.contact_id else None)


def _order(letter: Letter, job: Job, replays: int, source: str, run: Run) -> bytes:
    command = Command(
        id=str(uuid5(ORDERS, f"{source} {run.number}")),
        at_ms=run.now_ms,
        action="requeue",
        organization_id=job.organization_id,
        job_id=job.id,
        reason=run.reason,
        issued_by=run.by,
        replay=run.number,
        job=letter.value,
        replays=replays,
    )
    return encode_command(command)


def source_of(headers: Sequence[Header]) -> str:
    """Of what a record is a copy; empty when it is none."""
    return next(
        (value.decode(errors="replace") for name, value in headers if name == COPIED_FROM and value), ""
    )
