"""What the sink took from Kafka in one go, and how far it moves each partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from schemas.records import Outcome
from sinks.prepared import Prepared, prepare
from sinks.rows import TroubleRow

Header = tuple[str, bytes | None]


@dataclass(frozen=True, slots=True)
class Record:
    """One record of the outcomes topic, as it came."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """Unix ms."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]


@dataclass(frozen=True, slots=True)
class End:
    """The end of a partition: nothing lies below `offset` that was not read."""

    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class Taken:
    """One record, or the end of a partition: everything below `next_offset` is dealt with after it."""

    partition: int
    next_offset: int
    outcome: Outcome | None = None
    """None: nothing for Postgres, only the offset moves."""
    record: Record | None = None
    """As it came, for the dead letter that it may become."""
    later: bool = False
    """It waits for a sink that knows its schema."""


@dataclass(frozen=True, slots=True)
class Batch:
    """What is written in one transaction."""

    taken: Sequence[Taken]
    prepared: Prepared
    conditions: Sequence[TroubleRow] = ()
    """What the sink itself has to tell with it."""


def batch_of(taken: Sequence[Taken], conditions: Sequence[TroubleRow] = ()) -> Batch:
    """What was taken, made ready to be written."""
    return Batch(taken, prepare([one.outcome for one in taken if one.outcome is not None]), conditions)


@dataclass(frozen=True, slots=True)
class Move:
    """One partition's step in `rajada.sink_offsets`: from the value that is expected there to the next."""

    partition: int
    expected: int
    next: int


def moves_of(batch: Iterable[Taken], positions: Mapping[int, int]) -> list[Move]:
    """How far a batch moves each partition, ordered by partition.

    `positions` are the offsets as they stand in Postgres. The last record of a partition counts, also
    when it lies below: a topic that was cut (unclean election) starts again from what is there.
    """
    last = {taken.partition: taken.next_offset for taken in batch}
    return [Move(partition, positions[partition], last[partition]) for partition in sorted(last)]
