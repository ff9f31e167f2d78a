"""What was read from the delay topics and may not leave yet: one queue a partition (pure).

A queue's order is the log's, and everything in it waits equally long, so only its head has to be looked at.
Nothing here outlives an assignment: whoever gets a partition reads it again from the group's offset and
derives from the records themselves when they may leave, and whether to pause.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from streams.delays.records import Place, Record
from streams.due import read_due

MOST_RECORDS: Final = 1_000
"""Of one partition that are held; reading pauses above it, and goes on when half of it has left."""
MOST_BYTES: Final = 1024 * 1024
"""The same in bytes."""
MOST_BYTES_IN_ALL: Final = 64 * 1024 * 1024
"""Above it a partition is only read when nothing of it is held."""

Mark = tuple[str, int, int]
"""A record by topic, partition and offset."""


class Held(Struct, frozen=True, gc=False):
    """A record that waits, when it is due (None: it doesn't say) and when it may leave, on Kafka's clock."""

    record: Record
    due_ms: int | None
    leaves_ms: float
    size: int
    """Bytes, roughly."""

    @property
    def mark(self) -> Mark:
        """Its name."""
        return self.record.topic, self.record.partition, self.record.offset


@dataclass(slots=True)
class _Queue:
    wait_ms: int
    held: deque[Held] = field(default_factory=deque)
    bytes: int = 0
    position: int | None = None
    """The next offset to be read; None: nothing was read yet."""
    committed: int | None = None
    """What we have committed of it."""
    paused: bool = False

    def clear(self) -> None:
        self.held.clear()
        self.bytes = 0


class Queues:
    """The queues of all partitions that are ours."""

    def __init__(self, waits_ms: Mapping[str, int]) -> None:
        """`waits_ms`: full topic name → ms that a record stays in it."""
        self._waits_ms = waits_ms
        self._queues: dict[Place, _Queue] = {}
        self._bytes = 0

    # -- what the group gives and takes
    def assign(self, places: Iterable[Place]) -> None:
        """These are ours from now on; nothing of them was read."""
        for place in places:
            self.revoke([place])
            self._queues[place] = _Queue(self._waits_ms[place[0]])

    def revoke(self, places: Iterable[Place]) -> None:
        """These aren't ours any more; what is held of them is forgotten."""
        for place in places:
            queue = self._queues.pop(place, None)
            if queue is not None:
                self._bytes -= queue.bytes

    @property
    def places(self) -> Collection[Place]:
        """The partitions that are ours."""
        return self._queues.keys()

    @property
    def waiting(self) -> int:
        """Records that are held."""
        return sum(len(queue.held) for queue in self._queues.values())

    # -- what is read
    def add(self, record: Record, now_ms: float) -> None:
        """A record was read at `now_ms` of Kafka's clock.

        It can't have been appended later than now: a time that says so was written before Kafka's clock was
        set back, and the wait counts from now. A record without a due time may leave at once.
        """
        queue = self._queues.get(record.place)
        if queue is None:
            return  # it came with the news that its partition isn't ours
        if queue.position is not None and record.offset < queue.position:
            self._bytes -= queue.bytes
            queue.clear()  # the client went back and reads all of it again
        due_ms = read_due(record.headers) if record.readable else None
        leaves_ms = now_ms if due_ms is None else min(record.timestamp, now_ms) + queue.wait_ms
        size = record.size
        queue.held.append(Held(record, due_ms, leaves_ms, size))
        queue.position = record.offset + 1
        queue.bytes += size
        self._bytes += size

    def reached_end(self, place: Place, offset: int) -> None:
        """Everything below `offset` was read: the last offsets may be those of ends of transactions."""
        queue = self._queues.get(place)
        if queue is not None and (queue.position is None or offset > queue.position):
            queue.position = offset

    def flow(self) -> tuple[list[Place], list[Place]]:
        """The partitions whose reading must pause now, and those whose reading must go on."""
        pause: list[Place] = []
        go_on: list[Place] = []
        scarce = self._bytes > MOST_BYTES_IN_ALL
        for place, queue in self._queues.items():
            share = max(len(queue.held) / MOST_RECORDS, queue.bytes / MOST_BYTES)
            if queue.paused:
                if not queue.held or (share <= 0.5 and not scarce):
                    queue.paused = False
                    go_on.append(place)
            elif queue.held and (share >= 1 or scarce):
                queue.paused = True
                pause.append(place)
        return pause, go_on

    # -- what leaves
    def next_leaves_ms(self) -> float | None:
        """When the first of the heads may leave; None when nothing is held."""
        heads = [queue.held[0].leaves_ms for queue in self._queues.values() if queue.held]
        return min(heads, default=None)

    def ready(
        self, now_ms: float, most_records: int, most_bytes: int, alone: Collection[Mark] = ()
    ) -> list[Held]:
        """What may leave at `now_ms`, those that waited longest first; they stay until `left`.

        A record of `alone` comes by itself.
        """
        due = [queue for queue in self._queues.values() if queue.held and queue.held[0].leaves_ms <= now_ms]
        due.sort(key=lambda queue: queue.held[0].leaves_ms)
        batch: list[Held] = []
        size = 0
        for queue in due:
            for held in queue.held:
                if held.leaves_ms > now_ms:
                    break
                if alone and held.mark in alone:
                    if not batch:
                        return [held]
                    break
                size += held.size
                if batch and (len(batch) >= most_records or size > most_bytes):
                    return batch
                batch.append(held)
        return batch

    def left(self, batch: Iterable[Held]) -> None:
        """These, from `ready`, were forwarded and committed."""
        for held in batch:
            queue = self._queues[held.record.place]
            assert queue.held[0] is held, "what leaves is at the head"
            queue.held.popleft()
            queue.bytes -= held.size
            self._bytes -= held.size

    # -- what is committed
    def offsets_after(self, batch: Iterable[Held]) -> dict[Place, int]:
        """What to commit with a batch from `ready`: the offset behind its last record of each partition."""
        return {held.record.place: held.record.offset + 1 for held in batch}

    def ends(self) -> dict[Place, int]:
        """What may be committed of partitions of which nothing waits: so that they show no lag."""
        return {
            place: queue.position
            for place, queue in self._queues.items()
            if not queue.held and queue.position is not None and queue.position != queue.committed
        }

    def committed(self, offsets: Mapping[Place, int]) -> None:
        """These offsets were committed."""
        for place, offset in offsets.items():
            self._queues[place].committed = offset
