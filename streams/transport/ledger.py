"""What has been delivered and what may be committed, per partition.

Pure bookkeeping: no Kafka, no event loop, one thread. Three rules make it safe:

* A partition is *closed* until a seek has finished in its current epoch. Every assignment and every seek
  begins a new epoch; whatever still arrives from an older one (a fetch, a finished batch, the answer to
  a commit) changes nothing.
* Delivered ranges are contiguous: `[start, end)` is accepted only where the last range ended. Offsets that
  don't exist in the log (compaction, aborted transactions, retention) simply lie inside a range.
* The commit point is the end of the longest prefix of finished ranges.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Generic, NamedTuple, TypeVar

P = TypeVar("P", bound=Hashable)
R = TypeVar("R")


class Expected(NamedTuple):
    """What the next fetch of a partition has to be: made in `epoch`, starting at `offset`."""

    epoch: int
    offset: int


class Progress(NamedTuple):
    """How far a partition is: three offsets, none above the next."""

    committed: int
    """The coordinator is known to have this."""
    base: int
    """Everything below is finished."""
    delivered: int
    """Everything below was delivered."""

    @property
    def unfinished(self) -> int:
        """Offsets delivered and not finished."""
        return self.delivered - self.base

    @property
    def uncommitted(self) -> int:
        """Offsets finished and not committed."""
        return self.base - self.committed


class Batch(Generic[P, R]):
    """One delivered range `[start, end)` of a partition; it may hold fewer records than offsets, or none."""

    __slots__ = ("end", "epoch", "finished", "message", "partition", "records", "size", "start")

    def __init__(self, partition: P, expected: Expected, end: int, records: Sequence[R]) -> None:
        self.partition = partition
        self.epoch, self.start = expected
        self.end = end
        self.records = records
        self.finished = not records
        self.size = 0
        """Bytes that it holds; the ledger only carries it."""
        self.message: object = None
        """What the consumer handed to the streams for this batch, while it is in flight. It knows its batch:
        a circle, which would keep all records until Python looks for circles, perhaps for an hour."""

    def __repr__(self) -> str:
        state = "finished" if self.finished else "pending"
        return f"<Batch {self.partition} [{self.start},{self.end}) epoch={self.epoch} {state}>"


class _Partition(Generic[P, R]):
    __slots__ = ("base", "committed", "epoch", "in_flight", "next")

    def __init__(self, epoch: int) -> None:
        self.in_flight: deque[Batch[P, R]] = deque()
        self.restart(epoch)

    def restart(self, epoch: int) -> None:
        """Forget everything: nothing is delivered or committed before the seek of this epoch has finished."""
        self.epoch = epoch
        self.next: int | None = None  # where the next range has to start; None: closed
        self.base: int | None = None  # everything below is finished; None: unknown
        self.committed = 0  # what the group coordinator is known to have; means nothing while base is None
        self.let_go()

    def let_go(self) -> None:
        """What is in flight counts no more."""
        for batch in self.in_flight:
            batch.message = None
        self.in_flight.clear()

    def fold(self) -> None:
        while self.in_flight and self.in_flight[0].finished:
            self.base = self.in_flight.popleft().end


class Ledger(Generic[P, R]):
    """The bookkeeping of one consumer; `P` names a partition, `R` is whatever a record is."""

    def __init__(self) -> None:
        self._partitions: dict[P, _Partition[P, R]] = {}
        self._epochs = count(1)

    # -- assignment and position

    def assign(self, partitions: Iterable[P]) -> None:
        """A new assignment replaces the old one; every partition starts closed."""
        for state in self._partitions.values():
            state.let_go()
        self._partitions = {partition: _Partition(next(self._epochs)) for partition in partitions}

    def revoke(self, partitions: Iterable[P]) -> None:
        """These partitions aren't ours any more; batches still at work on them will count for nothing."""
        for partition in partitions:
            state = self._partitions.pop(partition, None)
            if state is not None:
                state.let_go()

    def suspend(self) -> None:
        """Deliver nothing more until the next seek; what is in flight may still finish and be committed.

        A seek under way is void: it must not open its partition while ownership is being given up.
        """
        for state in self._partitions.values():
            if state.base is None:
                state.restart(next(self._epochs))
            state.next = None

    def rewind(self, partitions: Iterable[P]) -> dict[P, int]:
        """Begin a seek: forget what is in flight. Returns the epochs to hand to `settle`."""
        epochs = {}
        for partition in partitions:
            state = self._partitions.get(partition)
            if state is not None:
                epochs[partition] = next(self._epochs)
                state.restart(epochs[partition])
        return epochs

    def settle(self, epoch: int, partition: P, offset: int) -> bool:
        """End a seek: the fetcher stands at `offset`. Opens the partition; False if the epoch has passed."""
        state = self._partitions.get(partition)
        if state is None or state.epoch != epoch or state.base is not None:
            return False
        state.next = state.base = state.committed = offset
        return True

    def fetchable(self, partitions: Iterable[P]) -> dict[P, Expected]:
        """Those of `partitions` that may be fetched now, with what the fetch has to be."""
        wanted = {}
        for partition in partitions:
            state = self._partitions.get(partition)
            if state is not None and state.next is not None:
                wanted[partition] = Expected(state.epoch, state.next)
        return wanted

    def expected(self, epoch: int, partition: P) -> int | None:
        """Where a fetch made in `epoch` has to start; None when it is stale."""
        state = self._partitions.get(partition)
        return state.next if state is not None and state.epoch == epoch else None

    # -- delivery

    def accept(
        self, epoch: int, partition: P, start: int, end: int, records: Sequence[R], tracked: bool = True
    ) -> Batch[P, R] | None:
        """Take `[start, end)` for delivery; None when it is stale, closed or not the continuation.

        `tracked=False` is for topics that are read but never committed (changelogs).
        """
        state = self._partitions.get(partition)
        if state is None or state.epoch != epoch or state.next != start or end <= start:
            return None
        state.next = end
        batch: Batch[P, R] = Batch(partition, Expected(epoch, start), end, records)
        if tracked:
            state.in_flight.append(batch)
            state.fold()
        return batch

    def is_live(self, batch: Batch[P, R]) -> bool:
        """Whether finishing this batch would still count."""
        state = self._partitions.get(batch.partition)
        return state is not None and state.epoch == batch.epoch

    def finish(self, batch: Batch[P, R]) -> bool:
        """The batch is done. False: it belongs to an older epoch and nothing changes."""
        state = self._partitions.get(batch.partition)
        if state is None or state.epoch != batch.epoch:
            return False
        batch.finished = True
        batch.message = None
        state.fold()
        return True

    # -- commit

    def commit_point(self, partition: P) -> int | None:
        """The offset to commit; None when the coordinator has it already or nothing is known."""
        state = self._partitions.get(partition)
        if state is None or state.base is None or state.base <= state.committed:
            return None
        return state.base

    def committed(self, epoch: int | None, partition: P, offset: int) -> None:
        """The coordinator confirmed a commit sent in `epoch`; an older epoch says nothing about this one."""
        state = self._partitions.get(partition)
        if state is not None and state.epoch == epoch and state.base is not None and offset > state.committed:
            state.committed = min(offset, state.base)

    # -- what is known

    def base(self, partition: P) -> int | None:
        """Everything below is finished; None while unknown. Untracked: where the last seek ended."""
        state = self._partitions.get(partition)
        return state.base if state is not None else None

    def epoch(self, partition: P) -> int | None:
        """The partition's current epoch; None when it isn't assigned."""
        state = self._partitions.get(partition)
        return state.epoch if state is not None else None

    def in_flight(self, partition: P) -> Collection[Batch[P, R]]:
        """The tracked batches that aren't folded into the base yet, oldest first."""
        state = self._partitions.get(partition)
        return state.in_flight if state is not None else ()

    def progress(self) -> Mapping[P, Progress]:
        """How far each open partition is: for alarms on work and commits that don't advance."""
        return {
            partition: Progress(
                state.committed, state.base, state.in_flight[-1].end if state.in_flight else state.base
            )
            for partition, state in self._partitions.items()
            if state.base is not None
        }

    def __iter__(self) -> Iterator[P]:
        """The assigned partitions (a snapshot)."""
        return iter(list(self._partitions))
