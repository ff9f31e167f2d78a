"""Lanes: which contact's job may start next (spec/jobs.md, "Lanes"). Pure; times in ms.

One job a contact runs at a time. Contacts that wait for a free slot are taken organization by organization:
the one with the fewest running jobs for its weight comes next, so that nobody's flood or slowness holds
another's; inside an organization by priority, then first come, first served. A channel session has a rate,
a person a least distance between two starts: who must wait for those waits aside.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

from streams.heads import EVERYBODY

RETRY_YIELDS_MS: Final = 30_000
"""A retry goes behind those who come up to so long after it, for each attempt that was spent on it: what
fails again and again takes the slots that others leave."""
BURST_MS: Final = 1_000
"""So much of a session's rate may come at once, and so late a place in it may be taken: what passes while
nobody could start (a pause, full slots) is not made up for in a flood afterwards."""
MOST_SESSIONS: Final = 10_000
"""Sessions whose rate is kept in mind; above it those that have been idle are forgotten."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What an installation may set."""

    concurrency: int = 64
    """Jobs of this worker that run at a time (EXECUTOR_CONCURRENCY)."""
    weights: Mapping[str, float] = field(default_factory=dict)
    """Organization → its share; 1 for all others."""
    rate_per_s: float = 80.0
    """Starts a second of one channel session, all workers together; 0 = no limit."""
    batch_of_kind: Mapping[str, int] = field(default_factory=dict)
    """Kind → most jobs of it that run at a time."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A contact whose next job may start."""

    key: bytes
    partition: int
    organization_id: str
    job_id: str
    kind: str
    session_id: str | None
    priority: int
    not_before_ms: int = 0
    attempt: int = 0
    """Attempts spent so far."""

    def place(self, now_ms: int) -> int:
        """Its place among those of the same priority, by when it came."""
        return max(now_ms, self.not_before_ms) + RETRY_YIELDS_MS * self.attempt


Entry = tuple[int, int, int, Turn]
"""(priority, place, arrival, turn): in this order they are taken."""


@dataclass(slots=True)
class _Organization:
    """The turns of one organization that wait for a slot."""

    weight: float = 1.0
    waiting: dict[str, list[Entry]] = field(default_factory=dict)
    """Kind → heap: one that has its batch must not be looked through for the others."""
    running: int = 0
    served: float = 0.0
    """Starts so far, by weight: who was served least comes first among equals."""

    @property
    def has_waiting(self) -> bool:
        """Whether any turn waits for a slot."""
        return any(self.waiting.values())


class Lanes:
    """All contacts with something to run, and how many run."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.share = 1.0
        """This worker's part of a session's rate: its partitions of all."""
        self.clear()

    def clear(self) -> None:
        """The partitions go: nothing waits and nothing runs here any more."""
        self._turns: dict[bytes, Turn] = {}
        self._turns_of: Counter[str] = Counter()
        """Organization → how many of them are its."""
        self._running: dict[bytes, Turn] = {}
        self._organizations: dict[str, _Organization] = {}
        self._aside: list[tuple[int, int, Entry]] = []
        """Heap of (not before, arrival, entry): they wait for their rate or distance."""
        self._next_of_session: dict[str, float] = {}
        self._forget_above = MOST_SESSIONS
        self._reserved: dict[str, int] = {}
        """Job → the place it has in its session's rate, ms: it isn't taken twice."""
        self._of_kind: dict[str, int] = {}
        self._arrival = 0
        self._floor = 0.0

    # -- what the executor tells

    def offer(self, turn: Turn, now_ms: int) -> None:
        """This is the contact's next job now (instead of what was offered before)."""
        if self._turns.get(turn.key) == turn:
            return
        self.withdraw(turn.key, turn.job_id)
        self._turns[turn.key] = turn
        self._turns_of[turn.organization_id] += 1
        self._arrival += 1
        entry = (turn.priority, turn.place(now_ms), self._arrival, turn)
        if turn.not_before_ms > now_ms:
            self._put_aside(turn.not_before_ms, entry)
        else:
            self._queue(entry)

    def withdraw(self, key: bytes, following: str | None = None) -> None:
        """The contact has nothing to run (but the job `following`, whose place in its rate it keeps)."""
        before = self._pop(key)
        if before is not None and before.job_id != following:
            self._reserved.pop(before.job_id, None)

    def ended(self, key: bytes) -> None:
        """The contact's running job has ended."""
        turn = self._running.pop(key, None)
        if turn is not None:
            organization = self._organizations[turn.organization_id]
            organization.running -= 1
            self._of_kind[turn.kind] -= 1
            if not organization.running and not organization.has_waiting:
                del self._organizations[turn.organization_id]

    # -- what it asks

    @property
    def running(self) -> int:
        """Jobs that run."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Contacts with a job that waits."""
        return len(self._turns)

    def waiting_but(self, paused: Collection[str]) -> int:
        """Contacts with a job that waits, without those of paused organizations (all, if everybody is)."""
        if EVERYBODY in paused:
            return len(self._turns)
        return len(self._turns) - sum(self._turns_of[name] for name in paused)

    def is_running(self, key: bytes) -> bool:
        """Whether a job of the contact runs."""
        return key in self._running

    def next_due(self) -> int | None:
        """When the first turn that waits aside may go, Unix ms."""
        return self._aside[0][0] if self._aside else None

    def take(self, now_ms: int, paused: Collection[str]) -> list[Turn]:
        """The turns that start now: as many as slots are free. They count as running from here on."""
        self._return(now_ms)
        free = self.limits.concurrency - len(self._running)
        if free <= 0 or EVERYBODY in paused:
            return []
        taken: list[Turn] = []
        order = [
            (one.running / one.weight, one.served, name)
            for name, one in self._organizations.items()
            if one.has_waiting and name not in paused
        ]
        heapq.heapify(order)
        while order and len(taken) < free:
            _, _, name = heapq.heappop(order)
            organization = self._organizations[name]
            turn = self._next(organization, now_ms)
            if turn is None:
                continue
            taken.append(turn)
            self._start(organization, turn)
            if organization.has_waiting:
                heapq.heappush(order, (organization.running / organization.weight, organization.served, name))
        return taken

    # -- inside

    def _pop(self, key: bytes) -> Turn | None:
        turn = self._turns.pop(key, None)
        if turn is not None:
            self._turns_of[turn.organization_id] -= 1
            if not self._turns_of[turn.organization_id]:
                del self._turns_of[turn.organization_id]
        return turn

    def _put_aside(self, until_ms: int, entry: Entry) -> None:
        heapq.heappush(self._aside, (until_ms, entry[2], entry))

    def _queue(self, entry: Entry) -> None:
        name = entry[3].organization_id
        organization = self._organizations.get(name)
        if organization is None:
            weight = max(self.limits.weights.get(name, 1.0), 0.001)
            # whoever comes new has not been waiting: it starts level with the others
            organization = self._organizations[name] = _Organization(weight, served=self._floor)
        heapq.heappush(organization.waiting.setdefault(entry[3].kind, []), entry)

    def _return(self, now_ms: int) -> None:
        """Those whose time has come go back among the others."""
        while self._aside and self._aside[0][0] <= now_ms:
            _, _, entry = heapq.heappop(self._aside)
            if self._turns.get(entry[3].key) is entry[3]:
                self._queue(entry)

    def _next(self, organization: _Organization, now_ms: int) -> Turn | None:
        """The organization's next turn that may start now; one that may not yet waits aside."""
        kinds = [kind for kind in organization.waiting if not self._has_its_batch(kind)]
        while heaps := [heap for kind in kinds if (heap := organization.waiting[kind])]:
            entry = heapq.heappop(min(heaps, key=itemgetter(0)))
            turn = entry[3]
            if self._turns.get(turn.key) is not turn or turn.key in self._running:
                continue  # withdrawn, or offered anew meanwhile
            slot_ms = self._slot(turn, now_ms)
            if slot_ms <= now_ms:
                return turn
            self._reserved[turn.job_id] = slot_ms
            self._put_aside(slot_ms, entry)
        return None

    def _has_its_batch(self, kind: str) -> bool:
        most = self.limits.batch_of_kind.get(kind)
        return most is not None and self._of_kind.get(kind, 0) >= most

    def _slot(self, turn: Turn, now_ms: int) -> int:
        """When its session may start the turn's job: the place it has, or else the session's next one."""
        rate = self.limits.rate_per_s * self.share
        if turn.session_id is None or rate <= 0:
            return now_ms
        step = 1000 / rate
        reserved = self._reserved.get(turn.job_id)
        if reserved is not None and reserved >= now_ms - max(BURST_MS, step):
            return reserved
        idle = now_ms - max(BURST_MS - step, 0)
        if len(self._next_of_session) > self._forget_above:
            busy = {session: place for session, place in self._next_of_session.items() if place > idle}
            self._next_of_session = busy
            self._forget_above = max(MOST_SESSIONS, 2 * len(busy))
        place = max(self._next_of_session.get(turn.session_id, 0.0), idle)
        self._next_of_session[turn.session_id] = place + step
        return int(place) if place > now_ms else now_ms

    def _start(self, organization: _Organization, turn: Turn) -> None:
        self._pop(turn.key)
        self._reserved.pop(turn.job_id, None)
        self._running[turn.key] = turn
        organization.running += 1
        organization.served += 1 / organization.weight
        self._floor = max(self._floor, organization.served)
        self._of_kind[turn.kind] = self._of_kind.get(turn.kind, 0) + 1


def eligible_at(last_started_ms: Iterable[int], spacing_ms: int) -> int:
    """When a contact's next job of one kind may start: so long after the last start of one; 0 = at once."""
    newest = max(last_started_ms, default=0)
    return newest + spacing_ms if newest and spacing_ms else 0
