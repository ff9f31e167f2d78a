"""What came out of a peer: which events are in no job, in several, and in which windows (pure).

A peer writes its jobs and outcomes as JSON or as our Avro, whichever is natural to it; both are read here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass

import msgspec

from schemas.codec import decode_job, decode_outcome

_OBJECT = b"{"


class _Member(msgspec.Struct, gc=False):
    event_id: str


class _Named(msgspec.Struct, gc=False):
    """What the records of every peer have in common."""

    events: list[_Member]
    id: str = ""


_named = msgspec.json.Decoder(_Named)


@dataclass(frozen=True, slots=True)
class Made:
    """One job record: its id and its window's events in their order."""

    id: str
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Audit:
    """What the job records say of the events that went in."""

    events: int
    lost: int
    """Events that are in no job."""
    doubled: int
    """Events that are in jobs of different ids: two answers to a customer."""
    changed: int
    """Events whose job was sent again under its id, but with other events in it."""
    again: int
    """Events in more than one job record, whatever its id: what a consumer that knows no ids runs twice."""
    repeated: int
    """Job records beyond the first of the same id and events: harmless to whoever knows the id."""
    unknown: int
    """Events in jobs that never went in."""

    @property
    def faultless(self) -> bool:
        """Every event in exactly one job; the same record may have come twice."""
        return not (self.lost or self.doubled or self.changed or self.unknown)


def read_job(value: bytes) -> Made:
    """A job record, whoever wrote it. Raises msgspec.DecodeError or what `schemas.codec` does."""
    if value.startswith(_OBJECT):
        told = _named.decode(value)
        return Made(told.id, tuple(one.event_id for one in told.events))
    job = decode_job(value)
    return Made(job.id, tuple(one.event_id for one in job.events))


def read_outcome_events(value: bytes) -> tuple[str, ...]:
    """The events that an outcome record speaks for; errors as `read_job`."""
    if value.startswith(_OBJECT):
        return tuple(one.event_id for one in _named.decode(value).events)
    return tuple(one.event_id for one in decode_outcome(value).events)


def audit(went_in: Collection[str], made: Iterable[Made]) -> Audit:
    """Compare the events that went in with the jobs that came out."""
    expected = set(went_in)
    versions: dict[str, set[tuple[str, ...]]] = {}
    jobs_of: dict[str, set[str]] = {}
    records_of: Counter[str] = Counter()
    repeated = 0
    for job in made:
        records_of.update(set(job.events))
        seen = versions.setdefault(job.id, set())
        repeated += job.events in seen
        seen.add(job.events)
        for event in job.events:
            jobs_of.setdefault(event, set()).add(job.id)
    changed: set[str] = set()
    for seen in versions.values():
        if len(seen) > 1:
            changed.update(*seen)
    return Audit(
        events=len(expected),
        lost=len(expected - jobs_of.keys()),
        doubled=sum(len(jobs) > 1 for jobs in jobs_of.values()),
        changed=len(changed),
        again=sum(records > 1 for records in records_of.values()),
        repeated=repeated,
        unknown=len(jobs_of.keys() - expected),
    )


def windows_of(made: Iterable[Made]) -> frozenset[tuple[str, ...]]:
    """The windows, each as its events in order: by them the jobs of two peers are compared."""
    return frozenset(job.events for job in made)


def extrapolated_s(measured_events: float, measured_s: float, events: int) -> float:
    """How long `events` would take at the measured pace: an estimate, as if neither keys nor state mattered.

    Raises ValueError when nothing was measured.
    """
    if measured_events <= 0 or measured_s <= 0:
        raise ValueError("nothing was measured that could be extrapolated")
    return events * measured_s / measured_events
