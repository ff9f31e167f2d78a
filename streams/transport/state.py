"""A table's state: the values of each partition, and how much of the changelog they cover. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from .errors import NotOwned
from .token import HEADER, MARKER, Reader, succeed
from .values import Values

V = TypeVar("V")


class Change(Protocol):
    """A changelog record."""

    @property
    def offset(self) -> int:
        """Its offset in the changelog's partition."""

    @property
    def key(self) -> bytes:
        """The key; changelogs are compacted, so there always is one."""

    @property
    def value(self) -> bytes | None:
        """The encoded value; None deletes the key."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """Its headers; among them the writer's token."""


class Partition(Generic[V]):
    """The state of one partition: what its changelog holds below `covered`, and what was put since."""

    __slots__ = ("_decode", "covered", "dirty", "headers", "tokens", "values")

    values: Values[V]

    def __init__(self, decode: Callable[[bytes], V]) -> None:
        self._decode = decode
        self.values = Values(decode)
        self.dirty: dict[bytes, None] = {}
        """Keys put since the last flush, in order."""
        self.covered: int | None = None
        """Every changelog record below this offset is in `values`; None: nothing was read yet."""
        self.tokens = Reader()
        self.headers: list[tuple[str, bytes]] = []
        """What our own records of this partition carry: our token; empty until it's recovered and claimed."""

    def empty(self) -> None:
        """Forget what was read."""
        self.values, self.dirty, self.covered, self.tokens = Values(self._decode), {}, None, Reader()

    def claim(self, generation: int) -> None:
        """Take the token of an owner that was assigned in `generation` (all that was written is read)."""
        self.tokens.highest = succeed(self.tokens.highest, generation).encode()
        self.headers = [(HEADER, self.tokens.highest)]


class State(Generic[V]):
    """The partitions of one table that this worker was assigned: its own, and those it only follows."""

    def __init__(self, decode: Callable[[bytes], V]) -> None:
        self._decode = decode
        self.partitions: dict[int, Partition[V]] = {}
        """The partitions that are ours."""
        self.followed: dict[int, Partition[V]] = {}
        """Standby replicas of partitions that others own: read, never written or shown."""
        self.late_writes = 0
        """Changelog records of replaced owners that recovery ignored."""
        self.read = 0
        """Changelog records taken over so far."""

    # -- ownership

    def assign(self, partitions: Collection[int], followed: Collection[int] = ()) -> set[int]:
        """Keep the state of partitions that stay here, forget all else. Returns those that start empty.

        A partition with keys that were put but never flushed is read again too: its state is ahead of what
        the changelog can give to the next owner, and nobody would write the difference.
        """
        before = {**self.followed, **self.partitions}
        wanted = {*partitions, *followed}
        kept = {
            p: state
            for p, state in before.items()
            if p in wanted and state.covered is not None and not state.dirty
        }
        for state in kept.values():
            state.headers = []
        self.partitions = {p: kept.get(p) or Partition(self._decode) for p in partitions}
        self.followed = {
            p: kept.get(p) or Partition(self._decode) for p in followed if p not in self.partitions
        }
        return wanted - kept.keys()

    def forget_owned(self) -> None:
        """Others may have owned our partitions meanwhile: what we wrote last may be a late write."""
        self.partitions = {}

    def find(self, partition: int) -> Partition[V] | None:
        """The state of a partition, ours or followed."""
        return self.partitions.get(partition) or self.followed.get(partition)

    def at(self, partition: int) -> Partition[V]:
        """The state of an owned partition. Raises NotOwned."""
        try:
            return self.partitions[partition]
        except KeyError:
            raise NotOwned(f"partition {partition} is not ours (owned: {sorted(self.partitions)})") from None

    # -- recovery

    def apply(self, partition: int, start: int, end: int, first: bool, changes: Iterable[Change]) -> bool:
        """Take over the changelog's range `[start, end)`; False when it doesn't continue what is covered.

        `first` says that the range begins where reading began: a partition without state accepts only that.
        When reading began behind what is covered, the log's beginning was deleted meanwhile, and only what
        is left of it counts. What is covered already is not applied again: the state never goes back.
        """
        state = self.find(partition)
        if state is None:
            return False
        if first and state.covered is not None and start > state.covered:
            state.empty()
        if not first if state.covered is None else start > state.covered:
            return False
        read, covered = state.values.read, state.covered or 0
        accepts = state.tokens.accepts
        for change in changes:
            if change.offset < covered:
                continue
            if not accepts(change.headers):
                self.late_writes += 1
                continue
            if change.key == MARKER:
                continue
            self.read += 1
            read(change.key, change.value)
        state.covered = max(covered, end)
        return True

    # -- use

    def get(self, key: bytes, partition: int | None = None) -> V | None:
        """The value of a key; without `partition` all owned partitions are looked through."""
        if partition is not None:
            state = self.partitions.get(partition)
            return state.values.get(key) if state is not None else None
        for state in self.partitions.values():
            if key in state.values:
                return state.values.get(key)
        return None

    def peek(self, key: bytes, partition: int) -> V | None:
        """The value of a key, to look at only (`Values.peek`)."""
        state = self.partitions.get(partition)
        return state.values.peek(key) if state is not None else None

    def put(self, key: bytes, value: V | None, partition: int) -> None:
        """Set or (None) delete a key and remember that it has to be flushed. Raises NotOwned."""
        state = self.partitions.get(partition) or self.at(partition)
        if not state.headers:
            raise NotOwned(f"partition {partition} isn't recovered yet: write only after `when_owned`")
        state.values.put(key, value)
        state.dirty[key] = None

    @property
    def is_dirty(self) -> bool:
        """Whether there are keys to flush."""
        return any(state.dirty for state in self.partitions.values())

    def take_dirty(self) -> Mapping[int, tuple[Partition[V], dict[bytes, None]]]:
        """The keys to flush, per partition; they count as flushed from now on."""
        taken = {}
        for number, state in self.partitions.items():
            if state.dirty:
                taken[number] = state, state.dirty
                state.dirty = {}
        return taken

    def keys(self, partition: int) -> Iterator[bytes]:
        """The keys of one partition; none when it isn't owned."""
        state = self.partitions.get(partition)
        return iter(state.values if state is not None else ())

    def items(self, partition: int) -> Iterator[tuple[bytes, V]]:
        """The keys and values (to look at only) of one partition; nothing when it isn't owned."""
        state = self.partitions.get(partition)
        return iter(state.values.items() if state is not None else ())

    def __len__(self) -> int:
        return sum(len(state.values) for state in self.partitions.values())
