"""Same window, same decision? What the shadow decided beside what the old drain left in its tables (pure).

An old drain tells little: an event is `done`, with a job that names it or without one, and mostly no reason.
So what is compared is whether somebody is answered, how often, and, where it is told, why not. A difference
that facts may explain which were changed between the two decisions is not counted as one
(`NotComparable`); docs/shadow.md has the rules in a table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

JOB: Final = "job"
SUPERSEDED: Final = "superseded_by_newer_inbound"

SETTLE_MS: Final = 3_000
"""A drain may say that an event is done a moment before its job is there."""
LEFT_MS: Final = 600_000
"""What the old drain has not finished after so long it has left behind."""
LATE_MS: Final = 10_000
"""A shadow that decided so long after the window's end saw another state than a worker would have."""
TURN_MS: Final = 180_000
"""How long a job of the old drain's may take: no row tells when one ended."""

Kind = Literal[
    "same_job", "same_stop",
    "split", "joined", "only_theirs", "only_ours", "other_stop", "they_left", "they_failed", "we_failed",
    "unseen",
]  # fmt: skip
SAME: Final[tuple[Kind, ...]] = ("same_job", "same_stop")
DIFFERENCES: Final[tuple[Kind, ...]] = (
    "only_theirs", "only_ours", "other_stop", "split", "joined",
    "they_left", "they_failed", "we_failed", "unseen",
)  # fmt: skip

NotComparable = Literal[
    "their_job_ran", "facts_changed", "we_were_late", "not_yet", "no_row", "replayed", "by_rajada"
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ours:
    """One window of the shadow; times in Unix ms."""

    events: tuple[str, ...]
    """In the order of the log."""
    organization_id: str
    contact_id: str | None
    conversation_id: str | None
    outcome: str
    """`job`, the reason of a stop, or of a death."""
    dead: bool = False
    first_look: str | None = None
    """What it would have been when the window opened; None: nobody looked."""
    opened_ms: int
    """When its first event came."""
    deadline_ms: int
    decided_ms: int
    waited: bool = False
    """It stayed open for a photo or audio to be read."""
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class TheirEvent:
    """A row of `event_log`."""

    status: str
    created_ms: int
    decided_ms: int
    """When it was last touched."""
    reason: str | None = None
    """Why it made no job, where the drain says so."""
    by_rajada: bool = False
    """A sink of ours wrote its outcome."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TheirJob:
    """A row of `job_queue` that is not ours."""

    id: str
    source: str
    """The event it was made from."""
    events: frozenset[str]
    """That one and those that it names beside it."""
    conversation_id: str | None
    created_ms: int
    started_ms: int | None
    """When it began to run; of one that has run and doesn't tell, when it was made; None: not yet."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What became of one window in the two systems."""

    window: Ours
    kind: Kind | None
    """None: not comparable."""
    because: NotComparable | None = None
    jobs: tuple[str, ...] = ()
    """The old drain's jobs for the window's events."""
    theirs: str = ""
    """What the old drain did, in a word: `job`, `2 jobs`, a reason, `no job`."""


def compare(window: Ours, events: Mapping[str, TheirEvent], jobs: Sequence[TheirJob], now_ms: int) -> Finding:
    """What the two made of one window.

    Args:
        window: as the shadow decided it.
        events: the rows of its events, by id; those that are missing have none.
        jobs: the old drain's jobs of the contact.
        now_ms: when the rows were read, Unix ms.
    """
    mine = frozenset(window.events)
    own = tuple(job for job in jobs if job.events & mine)
    rows = [events[one] for one in window.events if one in events]
    theirs = _theirs(own, rows)

    def found(kind: Kind | None, because: NotComparable | None = None) -> Finding:
        return Finding(window, kind, because, tuple(job.id for job in own), theirs)

    if (because := _cannot_be(window, rows)) is not None:
        return found(None, because)
    if any(row.status in ("pending", "processing") for row in rows):
        waits_ms = now_ms - max(window.decided_ms, *(row.created_ms for row in rows))
        return found("they_left") if waits_ms > LEFT_MS else found(None, "not_yet")
    if now_ms - max(window.decided_ms, *(row.decided_ms for row in rows)) < SETTLE_MS:
        return found(None, "not_yet")
    kind = _kind(window, rows, own, jobs)
    if kind in _OF_FACTS and (because := _explained(window, rows, jobs)) is not None:
        return found(None, because)
    return found(kind)


_OF_FACTS: Final = frozenset({"only_ours", "only_theirs", "other_stop"})
"""Differences that other facts may explain; the rest is about which events are together."""


def _cannot_be(window: Ours, rows: Sequence[TheirEvent]) -> NotComparable | None:
    if window.replayed:
        return "replayed"
    if len(rows) < len(window.events):
        return "no_row"
    return "by_rajada" if any(row.by_rajada for row in rows) else None


def _kind(
    window: Ours, rows: Sequence[TheirEvent], own: Sequence[TheirJob], jobs: Sequence[TheirJob]
) -> Kind:
    if window.dead:
        return "they_failed" if _failed(rows, own) else "we_failed"
    if window.outcome == JOB:
        if len(own) > 1:
            return "split"
        if len(own) == 1:
            return "same_job" if own[0].source in window.events else "joined"
        if _failed(rows, own):
            return "they_failed"
        return "joined" if _carried(window, rows, jobs) else "only_ours"
    if own:
        # its message has a newer one, which we answer: they answer both, or this one for both
        return "split" if window.outcome == SUPERSEDED else "only_theirs"
    if _failed(rows, own):
        return "they_failed"
    told = {row.reason for row in rows if row.reason}
    return "other_stop" if told and told != {window.outcome} else "same_stop"


def _failed(rows: Iterable[TheirEvent], own: Sequence[TheirJob]) -> bool:
    return not own and any(row.status == "dead" for row in rows)


def _carried(window: Ours, rows: Sequence[TheirEvent], jobs: Iterable[TheirJob]) -> bool:
    """Whether an earlier job of theirs was still waiting when they dealt with the window's events.

    A drain that lets events ride on a pending job leaves no other sign of it (b087).
    """
    first_ms, done_ms = min(row.created_ms for row in rows), min(row.decided_ms for row in rows)
    return any(
        job.conversation_id == window.conversation_id
        and job.created_ms <= done_ms
        and (job.started_ms is None or job.started_ms >= first_ms)
        for job in jobs
    )


def _explained(window: Ours, rows: Sequence[TheirEvent], jobs: Iterable[TheirJob]) -> NotComparable | None:
    """Why facts may have been others for the two; None: they were the same, as far as anybody can tell."""
    if not window.waited and window.decided_ms - window.deadline_ms > LATE_MS:
        return "we_were_late"
    jobs = tuple(jobs)
    before = _may_have_run(jobs, window.opened_ms, window.decided_ms)
    if window.first_look is None:
        if before:
            return "their_job_ran"
    elif window.first_look != _of_the_moment(window):
        return "their_job_ran" if before else "facts_changed"
    decided_ms = min(row.decided_ms for row in rows)
    if decided_ms > window.decided_ms and _may_have_run(jobs, window.decided_ms, decided_ms):
        return "their_job_ran"
    return None


def _of_the_moment(window: Ours) -> str:
    """The decision as a first look would tell it: that a newer message came is nothing it could see."""
    if window.outcome == SUPERSEDED and window.first_look is not None:
        return window.first_look
    return window.outcome


def _may_have_run(jobs: Iterable[TheirJob], from_ms: int, to_ms: int) -> bool:
    """Whether one of the jobs may have been at work at some moment between the two."""
    return any(
        job.started_ms is not None and job.started_ms <= to_ms and job.started_ms + TURN_MS >= from_ms
        for job in jobs
    )


def _theirs(own: Sequence[TheirJob], rows: Sequence[TheirEvent]) -> str:
    if own:
        return JOB if len(own) == 1 else f"{len(own)} jobs"
    for row in rows:
        if row.status in ("pending", "processing", "dead"):
            return row.status
    return next((row.reason for row in rows if row.reason), "no job")
