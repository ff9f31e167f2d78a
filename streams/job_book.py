"""The jobs of the owned partitions: heads and lanes in step, and what is still to be made durable or sent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from streams.contact_jobs import PAUSES, ContactJobs
from streams.executor_ports import JobsTable
from streams.heads import Head, Send, State
from streams.lanes import Lanes, eligible_at
from streams.ports import Item
from streams.turns import Turn

SLICE: Final = 2_000
"""Records looked at without letting others run."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A contact that has a job of a newer version: where, and since when it is ours (ms)."""

    partition: int
    since_ms: int


@dataclass(slots=True)
class Parcel:
    """The unsent records of some contacts as they were taken: sent together, confirmed together."""

    items: dict[str, list[Item]] = field(default_factory=dict)
    """Topic → records."""
    taken: list[tuple[bytes, int, list[tuple[list[Send], int]]]] = field(default_factory=list)
    """Contact's key and partition → the lists that they stand in, and how many of each were taken."""


class JobBook:
    """Heads in their table, turns in the lanes."""

    def __init__(
        self,
        table: JobsTable,
        lanes: Lanes,
        wall_ms: Callable[[], int],
        *,
        spacing_ms: int,
        paused: frozenset[str] = frozenset(),
    ) -> None:
        self._table = table
        self.lanes = lanes
        self._wall_ms = wall_ms
        self._spacing_ms = spacing_ms
        self._flushes: list[asyncio.Future[None]] = []
        self._touched: dict[bytes, int] = {}
        self.unverified: dict[tuple[bytes, str], int] = {}
        """Contact's key and job id → partition."""
        self.unknown: dict[bytes, Unknown] = {}
        """Contacts of which nothing is run or ordered here (`streams.newer_jobs`)."""
        self._paused: dict[int, frozenset[str]] = {}
        self._always_paused = paused

    # -- heads

    def jobs(self, key: bytes, partition: int) -> ContactJobs:
        """The jobs of a contact; a new record, not yet in the table, if there are none."""
        return self._table.get(key, partition) or ContactJobs()

    def changed(self, key: bytes, partition: int, jobs: ContactJobs) -> None:
        """Heads of a contact have changed: write them with the next flush, and see what it runs next."""
        self._table.put(key, jobs, partition)
        self._touched[key] = partition
        if key == PAUSES:
            self._paused[partition] = frozenset(jobs.paused)
            return
        for job_id, head in jobs.heads.items():
            if head.state is State.UNVERIFIED:
                self.unverified[key, job_id] = partition
        self.offer(key, partition, jobs)

    def offer(self, key: bytes, partition: int, jobs: ContactJobs) -> None:
        """Put the contact's next job into the lanes, if it has one and none of its jobs runs."""
        if self.lanes.is_running(key) or key in self.unknown:
            return
        following = jobs.following()
        if following is None:
            self.lanes.withdraw(key)
            return
        job_id, head = following
        started = (one.started_ms for one in jobs.heads.values() if one.kind == head.kind)
        organization_id = key.partition(b":")[0].decode(errors="replace")  # whoever wrote the key
        self.lanes.offer(
            Turn(
                key,
                partition,
                organization_id,
                job_id,
                head.kind,
                head.session_id,
                head.priority,
                max(head.run_after_ms, eligible_at(started, self._spacing_ms)),
                head.attempt,
            ),
            self._wall_ms(),
        )

    @property
    def paused(self) -> frozenset[str]:
        """Organizations whose jobs don't start now (or `EVERYBODY`)."""
        return self._always_paused.union(*self._paused.values())

    # -- ownership

    async def rebuild(self, partitions: Iterable[int]) -> list[tuple[bytes, int, str]]:
        """Take over what recovery found; returns the jobs that ran when their worker ended, or are held."""
        self.clear()
        lost: list[tuple[bytes, int, str]] = []
        seen = 0
        for partition in sorted(partitions):
            for key, jobs in list(self._table.partition_items(partition)):
                seen += 1
                if seen % SLICE == 0:
                    await asyncio.sleep(0)
                if key == PAUSES:
                    self._paused[partition] = frozenset(jobs.paused)
                    continue
                self._found(key, partition, jobs, lost)
        return lost

    def _found(
        self, key: bytes, partition: int, jobs: ContactJobs, lost: list[tuple[bytes, int, str]]
    ) -> None:
        unsent = bool(jobs.unsent)
        if not all(head.is_known for head in jobs.heads.values()):
            self.unknown[key] = Unknown(partition, self._wall_ms())
        for job_id, head in jobs.heads.items():
            unsent = unsent or bool(head.unsent)
            if head.session_id is not None and head.started_ms:
                self.lanes.rates.began(head.session_id, head.started_ms)
            if key in self.unknown:
                continue
            if head.state in (State.RUNNING, State.HELD):
                lost.append((key, partition, job_id))
            elif head.state is State.UNVERIFIED:
                self.unverified[key, job_id] = partition
        if unsent:
            self._touched[key] = partition
        self.offer(key, partition, jobs)

    def clear(self) -> None:
        """The partitions go."""
        self.lanes.clear()
        self._touched.clear()
        self.unverified.clear()
        self.unknown.clear()
        self._paused.clear()
        self._flushes.clear()

    # -- durability

    def flush(self) -> None:
        """Hand every change to the producer; `durable` waits for it."""
        self._flushes = [one for one in self._flushes if not one.done()]
        self._flushes.append(self._table.flush())

    async def durable(self) -> None:
        """Flush, and return when everything that was flushed so far is durable."""
        self.flush()
        flushes, self._flushes = self._flushes, []
        await asyncio.gather(*flushes)

    @property
    def has_unsent(self) -> bool:
        """Whether heads that changed may have something to send."""
        return bool(self._touched)

    def take_unsent(self) -> Parcel:
        """What has to be sent for everything that changed: it stays in the heads until `confirm`."""
        parcel = Parcel()
        touched, self._touched = self._touched, {}
        for key, partition in touched.items():
            jobs = self._table.get(key, partition)
            if jobs is None:
                continue
            lists = [jobs.unsent, *(head.unsent for head in jobs.heads.values())]
            taken = [(sends, len(sends)) for sends in lists if sends]
            if not taken:
                continue
            parcel.taken.append((key, partition, taken))
            for sends, _ in taken:
                for send in sends:
                    item: Item = (key, send.value, partition, send.headers)
                    parcel.items.setdefault(send.topic, []).append(item)
        return parcel

    def confirm(self, parcel: Parcel) -> None:
        """A parcel's records are durable: forget them. Nobody has to wait for that."""
        for key, partition, taken in parcel.taken:
            jobs = self._table.get(key, partition)
            if jobs is None:
                continue
            for sends, count in taken:
                del sends[:count]
            self._table.put(key, jobs, partition)
        if parcel.taken:
            self.flush()

    def shrunk(self, key: bytes, partition: int, jobs: ContactJobs) -> None:
        """Something of a contact was forgotten: write what is left, or a tombstone."""
        self._table.put(key, None if jobs.is_empty else jobs, partition)

    def look(self, key: bytes, partition: int) -> ContactJobs:
        """As `jobs`, for looks at all contacts, one after the other: what nobody uses isn't kept decoded.

        What was changed in it is to be handed back, to `shrunk`.
        """
        return self._table.peek(key, partition) or ContactJobs()

    def keys(self, partition: int) -> list[bytes]:
        """The keys of an owned partition."""
        return list(self._table.partition_keys(partition))

    @property
    def owned(self) -> set[int]:
        """The partitions that are owned."""
        return self._table.owned


def head_of(jobs: ContactJobs, job_id: str, state: State) -> Head | None:
    """A job's head if it is in this state."""
    head = jobs.heads.get(job_id)
    return head if head is not None and head.state is state else None
