"""A model around the ledger: a log with holes, a fetcher that drops and jumps, a group that reassigns.

The model knows what was really processed and what the broker really has; after every step nothing below a
committed offset may be unprocessed, and a run without further faults must end with all of it committed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

PARTITIONS = ("a", "b", "c")


class Fetch(NamedTuple):
    """What a fetch brought, not yet delivered."""

    partition: str
    epoch: int
    start: int
    end: int
    records: list[int]


class Seek(NamedTuple):
    """A seek under way: its offset was read from the broker, the fetcher not moved yet."""

    epoch: int
    partition: str
    offset: int
    generation: int


class Commit(NamedTuple):
    """A commit under way."""

    partition: str
    epoch: int | None
    offset: int
    generation: int


class AnyLedger(Protocol):
    """The ledger or one of its mutants."""

    def __getattr__(self, name: str) -> Callable[..., object]: ...

    def __iter__(self) -> Iterator[str]: ...


class Model:
    """One consumer with its ledger; every method is a step that may happen at any time."""

    def __init__(self, ledger: AnyLedger) -> None:
        self.ledger = ledger
        self.log: dict[str, set[int]] = {p: set() for p in PARTITIONS}  # offsets that exist
        self.end = dict.fromkeys(PARTITIONS, 0)
        self.first = dict.fromkeys(PARTITIONS, 0)
        self.broker = dict.fromkeys(PARTITIONS, 0)  # committed offsets
        self.processed: dict[str, set[int]] = {p: set() for p in PARTITIONS}  # by anyone
        self.position = dict.fromkeys(PARTITIONS, 0)
        self.mine: set[str] = set()
        self.generation = 0
        self.seeks: list[Seek] = []
        self.void: set[int] = set()  # epochs of seeks that a suspension has overtaken
        self.fetches: list[Fetch] = []
        self.commits: list[Commit] = []
        self.batches: list[object] = []
        self.ends: dict[tuple[str, int], int] = {}
        self.confirmed: dict[tuple[str, int | None], int] = {}

    # -- the log

    def produce(self, partition: str, exists: Sequence[bool]) -> None:
        """Offsets are used up; those that don't exist are aborted, compacted or control records."""
        for there in exists:
            if there:
                self.log[partition].add(self.end[partition])
            self.end[partition] += 1

    def abort(self, partition: str, n: int) -> None:
        """A transaction is aborted: its records and its marker use up offsets and are never read."""
        self.produce(partition, [False] * (n + 1))

    def commit_transaction(self, partition: str, n: int) -> None:
        """A transaction is committed: its records, and a marker that is none."""
        self.produce(partition, [True] * n + [False])

    def compact(self, partition: str, i: int) -> None:
        """Compaction removes a record that a newer one of its key made needless, read already or not."""
        removable = sorted(self.log[partition])[:-1]
        if removable:
            self.log[partition].discard(removable[i % len(removable)])

    def expire(self, partition: str, n: int) -> None:
        """Retention removes the oldest `n` offsets."""
        self.first[partition] = min(self.end[partition], self.first[partition] + n)
        self.log[partition] = {o for o in self.log[partition] if o >= self.first[partition]}
        self.position[partition] = max(self.position[partition], self.first[partition])

    def expire_past_commit(self, partition: str, n: int) -> None:
        """The log's start moves above the committed offset."""
        self.expire(partition, max(0, self.broker[partition] - self.first[partition]) + n)

    # -- the group

    def assign(self, partitions: set[str], then_seek: bool) -> None:
        """A new generation."""
        self.generation += 1
        self.mine = set(partitions)
        self.ledger.assign(partitions)
        assert not self.ledger.fetchable(PARTITIONS), "fetches before any seek"
        if then_seek:
            self.seek(set(PARTITIONS))

    def revoke(self) -> None:
        """All is given up."""
        self.ledger.suspend()
        self.ledger.revoke(self.mine)
        self.mine, self.generation = set(), self.generation + 1

    def suspend(self, then_seek: bool) -> None:
        """Delivery stops until a seek."""
        self.ledger.suspend()
        self.void |= {seek.epoch for seek in self.seeks}
        assert not self.ledger.fetchable(PARTITIONS), "delivers although suspended"
        if then_seek:
            self.seek(set(PARTITIONS))

    def other_owner(self, partition: str, n: int) -> None:
        """While a partition isn't ours, another worker goes on with it."""
        if partition not in self.mine:
            to = min(self.end[partition], self.broker[partition] + n)
            done = {o for o in self.log[partition] if self.broker[partition] <= o < to}
            self.processed[partition] |= done
            self.broker[partition] = to

    # -- seeks: the committed offset is read at one time, the fetcher moved at another

    def seek_begin(self, partitions: set[str]) -> None:
        """The ledger forgets, the broker is asked."""
        for partition, epoch in self.ledger.rewind(partitions).items():
            self.seeks.append(Seek(epoch, partition, self.broker[partition], self.generation))

    def seek_end(self, i: int, cancelled: bool) -> None:
        """The fetcher moves, even when the ledger refuses; a seek of an older generation raises before."""
        seek = self.seeks.pop(min(i, len(self.seeks) - 1))
        if seek.generation != self.generation:
            return
        self.position[seek.partition] = seek.offset
        if not cancelled:
            settled = self.ledger.settle(seek.epoch, seek.partition, seek.offset)
            assert not (settled and seek.epoch in self.void), "a seek from before a suspension opened"

    def seek(self, partitions: set[str]) -> None:
        """A seek without anything in between."""
        before = len(self.seeks)
        self.seek_begin(partitions)
        while len(self.seeks) > before:
            self.seek_end(before, cancelled=False)

    # -- fetching and delivery, at different times

    def fetch(self, limit: int) -> None:
        """The fetcher drains up to `limit` offsets of each open partition."""
        for partition, (epoch, expected) in self.ledger.fetchable(PARTITIONS).items():
            start = self.position[partition]
            end = min(self.end[partition], start + limit)
            if end > start or start != expected:
                self.position[partition] = end
                there = sorted(o for o in self.log[partition] if start <= o < end)
                self.fetches.append(Fetch(partition, epoch, start, end, there))

    def drop_fetch(self, i: int) -> None:
        """What was drained is lost: a rebalance or a suspended flow."""
        self.fetches.pop(i % len(self.fetches))

    def deliver_old(self, size: int) -> None:
        """A fetch of an older generation arrives after the partitions were assigned and sought anew."""
        self.fetch(4)
        old = list(self.fetches)
        self.assign(set(PARTITIONS), then_seek=True)
        for fetch in old:
            before = len(self.batches)
            self.deliver(self.fetches.index(fetch), size, cut=False)
            assert len(self.batches) == before, "records of an older generation were delivered"

    def resume_early(self, limit: int, size: int) -> None:
        """The flow resumes before the seek: the fetcher stands anywhere, and nothing may come of it."""
        self.assign(set(PARTITIONS), then_seek=False)
        self.seek_begin(set(PARTITIONS))
        assert not self.ledger.fetchable(PARTITIONS), "fetches before the seek has ended"
        for partition, epoch in [(p, self.ledger.epoch(p)) for p in PARTITIONS]:
            start = self.position[partition]
            there = sorted(o for o in self.log[partition] if start <= o < start + limit)
            taken = self.ledger.accept(epoch, partition, start, start + limit, there[:size])
            assert taken is None, "delivered before the seek has ended"

    def run_ahead(self, partition: str, by: int) -> None:
        """The position moves without anybody having seen the records."""
        self.position[partition] = min(self.end[partition], self.position[partition] + by)

    def deliver(self, i: int, size: int, cut: bool) -> None:
        """Hand a fetch to the ledger, in pieces; `cut`: only the first one gets through."""
        partition, epoch, start, end, records = self.fetches.pop(i % len(self.fetches))
        expected = self.ledger.expected(epoch, partition)
        if expected != start:
            taken = self.ledger.accept(epoch, partition, start, end, records)
            assert taken is None, "took a range that does not follow"
        if expected is None:
            return
        if expected != start:
            self._refetch(partition, epoch, expected)
            return
        pieces = []
        for j in range(0, len(records), size):
            part = records[j : j + size]
            stop = part[-1] + 1 if j + size < len(records) else end
            pieces.append((start, stop, part))
            start = stop
        for piece in (pieces or [(start, end, [])])[: 1 if cut else None]:
            self._take(partition, epoch, *piece)

    def _refetch(self, partition: str, epoch: int, expected: int) -> None:
        if expected < self.first[partition]:
            self._take(partition, epoch, expected, self.first[partition], [])
            expected = self.first[partition]
        self.position[partition] = expected

    def _take(self, partition: str, epoch: int, start: int, end: int, records: list[int]) -> None:
        batch = self.ledger.accept(epoch, partition, start, end, records)
        if batch is None:
            return
        before = self.ends.get((partition, epoch), batch.start)
        assert (batch.start, batch.epoch) == (before, epoch), "not contiguous"
        self.ends[partition, epoch] = batch.end
        if records:
            self.batches.append(batch)

    # -- work and commits

    def finish(self, i: int, twice: bool) -> None:
        """A batch is done; it may be of an older epoch, and it may be reported again."""
        batch = self.batches[i % len(self.batches)]
        live = self.ledger.is_live(batch)
        self.processed[batch.partition] |= set(batch.records)
        assert self.ledger.finish(batch) == live, "a late batch counted, or a live one did not"
        if not twice:
            self.batches.remove(batch)

    def commit_begin(self, partition: str) -> None:
        """A commit is sent."""
        point = self.ledger.commit_point(partition)
        assert point is None or not self._undone(partition, point), "commits too much"
        if point is not None:
            self.commits.append(Commit(partition, self.ledger.epoch(partition), point, self.generation))

    def commit_end(self, i: int, fails: bool) -> None:
        """A commit is answered: lost, refused (an older generation), or accepted."""
        commit = self.commits.pop(i % len(self.commits))
        place = commit.partition, commit.epoch
        if fails and commit.epoch == self.ledger.epoch(commit.partition):
            again = max(self.ledger.commit_point(commit.partition) or 0, self.confirmed.get(place, 0))
            assert again >= commit.offset, "a failed commit isn't offered again"
        if fails or commit.generation != self.generation:
            return
        self.confirmed[place] = max(self.confirmed.get(place, 0), commit.offset)
        self.broker[commit.partition] = commit.offset
        self.ledger.committed(commit.epoch, commit.partition, commit.offset)

    # -- what must hold

    def _undone(self, partition: str, below: int) -> set[int]:
        return {o for o in self.log[partition] if o < below} - self.processed[partition]

    def check(self) -> None:
        """Nothing below a committed or committable offset is unprocessed."""
        assert set(self.ledger) == self.mine, "another assignment than the group's"
        for partition in PARTITIONS:
            assert not self._undone(partition, self.broker[partition]), "lost"
            assert not self._undone(partition, self.ledger.base(partition) or 0), "takes too much for done"
        for partition, (committed, base, delivered) in self.ledger.progress().items():
            assert 0 <= committed <= base <= delivered <= self.end[partition], "impossible progress"

    def drain(self) -> None:
        """Without further faults everything is processed and committed."""
        if not self.mine:
            self.assign(set(PARTITIONS), then_seek=False)
        self.seeks, self.commits = [], []
        for late in self.batches[:2]:  # older batches finish meanwhile, too
            self.processed[late.partition] |= set(late.records)
            self.ledger.finish(late)
        open_ = self.ledger.fetchable(PARTITIONS)
        stuck = {
            p
            for p in self.mine
            if p not in open_ or any(batch not in self.batches for batch in self.ledger.in_flight(p))
        }
        self.seek(stuck)
        for _ in range(400):
            self.fetch(5)
            while self.fetches:
                self.deliver(0, 3, cut=False)
            while self.batches:
                self.finish(0, twice=False)
            for partition in self.mine:
                self.commit_begin(partition)
            while self.commits:
                self.commit_end(0, fails=False)
            if all(self.broker[p] >= self.end[p] for p in self.mine):
                break
        for partition in self.mine:
            assert not self._undone(partition, self.end[partition]), "never delivered"
            assert self.broker[partition] == self.end[partition], "commits do not advance"
            assert self.ledger.commit_point(partition) is None, "commits without end"
            assert self.ledger.base(partition) == self.end[partition], "the base does not advance"


WEIGHTS = {
    "produce": 6.0, "fetch": 8.0, "deliver": 10.0, "finish": 9.0, "commit_begin": 5.0, "commit_end": 5.0,
    "drop_fetch": 1.0, "run_ahead": 0.5, "expire": 0.4, "seek_begin": 1.0, "seek_end": 2.0, "seek": 0.7,
    "suspend": 0.3, "assign": 0.3, "revoke": 0.2, "other_owner": 1.0, "abort": 0.7, "commit_transaction": 1.0,
    "compact": 1.0, "expire_past_commit": 0.1, "deliver_old": 0.15, "resume_early": 0.15,
}  # fmt: skip
"""How often a walk takes each step: faults are rare, so that there is something to break."""
NEEDS = {
    "deliver": "fetches", "drop_fetch": "fetches", "finish": "batches", "commit_end": "commits",
    "seek_end": "seeks",
}  # fmt: skip


def _arguments(dice: random.Random, step: str) -> tuple[object, ...]:
    partition, i = dice.choice(PARTITIONS), dice.randrange(100)
    some = {dice.choice(PARTITIONS) for _ in range(3)}
    choices: dict[str, tuple[object, ...]] = {
        "produce": (partition, [dice.random() < 0.7 for _ in range(dice.randint(1, 8))]),
        "fetch": (dice.randint(1, 5),),
        "deliver": (i, dice.randint(1, 4), dice.random() < 0.1),
        "finish": (i, dice.random() < 0.1),
        "commit_begin": (partition,),
        "commit_end": (i, dice.random() < 0.2),
        "drop_fetch": (i,),
        "run_ahead": (partition, 2),
        "expire": (partition, 1),
        "seek_begin": ({partition},),
        "seek_end": (i, dice.random() < 0.1),
        "seek": (set(PARTITIONS),),
        "suspend": (dice.random() < 0.7,),
        "assign": (some, dice.random() < 0.7),
        "revoke": (),
        "other_owner": (partition, 3),
        "abort": (partition, dice.randint(0, 3)),
        "commit_transaction": (partition, dice.randint(1, 3)),
        "compact": (partition, i),
        "expire_past_commit": (partition, dice.randint(1, 3)),
        "deliver_old": (dice.randint(1, 4),),
        "resume_early": (dice.randint(1, 5), dice.randint(1, 3)),
    }
    return choices[step]


def walk(ledger: AnyLedger, seed: int, steps: int = 120) -> None:
    """One weighted random walk through the model, then a drain. Raises AssertionError."""
    dice = random.Random(seed)
    model = Model(ledger)
    for partition in PARTITIONS:
        model.produce(partition, [True] * 4)
    model.assign(set(PARTITIONS), then_seek=True)
    for step in dice.choices(list(WEIGHTS), list(WEIGHTS.values()), k=steps):
        if step in NEEDS and not getattr(model, NEEDS[step]):
            continue
        getattr(model, step)(*_arguments(dice, step))
        model.check()
    model.drain()
