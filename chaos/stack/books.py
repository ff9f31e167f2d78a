"""What a run put in, and what it left behind, as plain data (pure): what the auditor judges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

ENDS: Final = frozenset({"done", "dead"})
"""States of an event that has its end."""
JOB_ENDS: Final = frozenset({"done", "failed", "dead"})


@dataclass(slots=True)
class Put:
    """An event that was put in. Times in Unix ms, of the same clock as the engine's log."""

    event_id: str
    message_id: str
    contact_id: str
    conversation_id: str
    before_ms: int
    """When its INSERT was sent: it can't have been committed earlier."""
    known: bool = False
    """Its transaction was confirmed; else nobody knows until the row is looked for."""
    after_ms: int = 0


@dataclass(frozen=True, slots=True)
class EventRow:
    """A row of `event_log`."""

    status: str
    outcome: str | None = None
    job_id: str | None = None


@dataclass(frozen=True, slots=True)
class JobRow:
    """A row of `job_queue`."""

    status: str
    organization_id: str
    contact_id: str
    event_ids: Sequence[str]
    attempts: int = 0
    last_error: str | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """What the trace tells: one step of an event, a job, or both."""

    event_id: str | None
    job_id: str | None
    stage: str
    status: str | None
    outcome: str | None
    replay: int = 0


@dataclass(frozen=True, slots=True)
class Call:
    """A request to the agent engine; `ended_ms` and `status` None: nothing was answered."""

    job_id: str
    attempt: int
    contact_id: str
    conversation_id: str
    event_ids: Sequence[str]
    at_ms: int
    ended_ms: int | None = None
    status: int | None = None
    mode: str = "ok"
    effect: bool = False
    replayed: bool = False
    sent_again: bool = False


@dataclass(frozen=True, slots=True)
class Letter:
    """A record of `dispatch.dead`."""

    event_id: str | None
    job_id: str | None
    reason: str
    replay: int = 0


@dataclass(frozen=True, slots=True)
class Alert:
    """An item of the inbox."""

    organization_id: str | None
    kind: str
    status: str
    occurrences: int = 1


@dataclass(frozen=True, slots=True)
class Link:
    """A group link that was asked for: its row's status (`held` too; None: no row), messages that came."""

    phone: str
    status: str | None
    messages: int
    known: bool = True
    """The request was answered with success."""


@dataclass(slots=True)
class Books:
    """All that the auditor looks at."""

    put: Sequence[Put] = ()
    events: Mapping[str, EventRow] = field(default_factory=dict)
    jobs: Mapping[str, JobRow] = field(default_factory=dict)
    trace: Sequence[Told] = ()
    calls: Sequence[Call] = ()
    letters: Sequence[Letter] = ()
    alerts: Sequence[Alert] = ()
    links: Sequence[Link] = ()
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Event → partition and offset of its first record on the source topic that was not deleted unread."""
    window_ms: int = 0
    restored: bool = False
    """Postgres was set back to an older backup: rows may be missing, their outcomes stand in the trace."""
    faults: Mapping[str, int] = field(default_factory=dict)
    """Kind → how often it happened."""


def there(books: Books) -> Iterator[Put]:
    """Events that were surely put in: confirmed, or found by their row or on the topic."""
    for one in books.put:
        if one.known or one.event_id in books.events or one.event_id in books.places:
            yield one


def ends(books: Books) -> Iterator[tuple[Put, EventRow]]:
    """Events with their end, by row, else by what the trace told first."""
    told = ends_told(books.trace)
    for one in there(books):
        end = books.events.get(one.event_id) or told.get(one.event_id)
        if end is not None and end.status in ENDS:
            yield one, end


def ends_told(trace: Iterable[Told]) -> dict[str, EventRow]:
    """Event → the first end that the trace tells."""
    found: dict[str, EventRow] = {}
    for one in trace:
        if one.event_id is not None and one.status in ENDS and one.outcome != "deduplicated":
            found.setdefault(one.event_id, EventRow(one.status or "", one.outcome, one.job_id))
    return found


def survivors(trace: Iterable[Told]) -> dict[str, str]:
    """Job → the newer one that merged or covered it, and answers in its place (docs/jobs.md)."""
    found: dict[str, str] = {}
    for one in trace:
        how, _, survivor = (one.outcome or "").partition(":")
        if one.job_id is not None and how in ("merged", "covered_by"):
            found[one.job_id] = survivor
    return found


def superseded(trace: Iterable[Told]) -> set[str]:
    """Jobs that a newer one merged or covered."""
    return set(survivors(trace))


def left_to(books: Books) -> set[tuple[str, str]]:
    """(event, job): the event was in an older job, and this one took it over, perhaps in several steps."""
    newer = survivors(books.trace)
    held = {(event, job_id) for job_id, job in books.jobs.items() for event in job.event_ids}
    held |= {(one.event_id, one.job_id) for one in books.trace if one.event_id and one.job_id}
    found = set()
    for event, job_id in held:
        seen = {job_id}
        while (job_id := newer.get(job_id, "")) and job_id not in seen:
            seen.add(job_id)
            found.add((event, job_id))
    return found


def answered(books: Books) -> set[str]:
    """Events that the engine answered."""
    return {event for call in books.calls if call.effect for event in call.event_ids}


def failed_links(books: Books) -> bool:
    """Whether a group link died: its alert has the kind of a dead job."""
    return any(link.status == "failed" for link in books.links)
