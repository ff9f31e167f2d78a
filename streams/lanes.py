"""Lanes: which contact's job may start next (spec/jobs.md, "Lanes"). Pure; times in ms.

One job a contact runs at a time. Contacts that wait for a free slot are taken organization by organization:
the one with the fewest running jobs for its weight comes next, so that nobody's flood or slowness holds
another's; inside an organization by priority, then first come, first served. A channel session has a rate
(`streams.rates`), a person a least distance between two starts: who must wait for those waits aside.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter

from streams.contact_jobs import EVERYBODY
from streams.rates import Rates
from streams.turns import Entry, Turn


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
        self.rates = Rates(limits.rate_per_s)
        self.clear()

    def clear(self) -> None:
        """The partitions go: nothing waits and nothing runs here any more."""
        self.rates.clear()
        self._turns: dict[bytes, Turn] = {}
        self._turns_of: Counter[str] = Counter()
        """Organization → how many of them are its."""
        self._running: dict[bytes, Turn] = {}
        self._organizations: dict[str, _Organization] = {}
        self._aside: list[tuple[int, int, Entry]] = []
        """Heap of (not before, arrival, entry): their time has not come, or they keep their distance."""
        self._places: dict[bytes, int] = {}
        """Contact → its place among the others."""
        self._of_kind: dict[str, int] = {}
        self._arrival = 0
        self._floor = 0.0

    # -- what the executor tells

    def offer(self, turn: Turn, now_ms: int) -> None:
        """This is the contact's next job now, in the place of what was offered before."""
        before = self._turns.get(turn.key)
        if before == turn:
            return
        place = turn.place(now_ms)
        if before is not None and before.attempt == turn.attempt:
            place = min(place, self._places[turn.key])  # a merge must not send it to the end
        self.withdraw(turn.key)
        self._turns[turn.key] = turn
        self._places[turn.key] = place
        self._turns_of[turn.organization_id] += 1
        self._arrival += 1
        entry = (turn.priority, place, self._arrival, turn)
        if turn.not_before_ms > now_ms:
            heapq.heappush(self._aside, (turn.not_before_ms, self._arrival, entry))
        else:
            self._queue(entry)

    def withdraw(self, key: bytes) -> None:
        """The contact has nothing to run."""
        turn = self._turns.pop(key, None)
        if turn is not None:
            del self._places[key]
            self._turns_of[turn.organization_id] -= 1
            if not self._turns_of[turn.organization_id]:
                del self._turns_of[turn.organization_id]

    def not_started(self, turn: Turn, now_ms: int) -> None:
        """A turn that was taken did not start after all."""
        self.rates.give_back(turn.session_id, now_ms)
        self.ended(turn.key)

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
        dues = [self._aside[0][0] if self._aside else None, self.rates.next_due()]
        return min((due for due in dues if due is not None), default=None)

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
            if self._is_offered(entry):
                self._queue(entry)
        for entry in self.rates.due(now_ms, self._is_offered):
            self._queue(entry)

    def _is_offered(self, entry: Entry) -> bool:
        """Not withdrawn, nor offered anew meanwhile."""
        return self._turns.get(entry[3].key) is entry[3]

    def _next(self, organization: _Organization, now_ms: int) -> Turn | None:
        """The organization's next turn that may start now; one that may not yet waits aside."""
        kinds = [kind for kind in organization.waiting if not self._has_its_batch(kind)]
        while heaps := [heap for kind in kinds if (heap := organization.waiting[kind])]:
            entry = heapq.heappop(min(heaps, key=itemgetter(0)))
            turn = entry[3]
            if not self._is_offered(entry) or turn.key in self._running:
                continue
            if turn.session_id is None or self.rates.take(turn.session_id, now_ms):
                return turn
            self.rates.wait(turn.session_id, entry, now_ms)
        return None

    def _has_its_batch(self, kind: str) -> bool:
        most = self.limits.batch_of_kind.get(kind)
        return most is not None and self._of_kind.get(kind, 0) >= most

    def _start(self, organization: _Organization, turn: Turn) -> None:
        self.withdraw(turn.key)
        self._running[turn.key] = turn
        organization.running += 1
        organization.served += 1 / organization.weight
        self._floor = max(self._floor, organization.served)
        self._of_kind[turn.kind] = self._of_kind.get(turn.kind, 0) + 1


def eligible_at(last_started_ms: Iterable[int], spacing_ms: int) -> int:
    """When a contact's next job of one kind may start: so long after the last start of one; 0 = at once."""
    newest = max(last_started_ms, default=0)
    return newest + spacing_ms if newest and spacing_ms else 0
