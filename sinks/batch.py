"""What the sink took from Kafka in one go, and how far it moves each partition. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from schemas.records import Outcome

Header = tuple[str, bytes | None]

MESSAGE_BYTES: Final = 1_000
"""Budget of the error text in a dead letter's header."""


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


def dead_letter_headers(record: Record, reason: str, message: str, now_ms: int) -> list[Header]:
    """The headers of a dead letter: the original's, then ours (spec/jobs.md, "Dead letters").

    A record that died before keeps where it came from first; the other headers tell of this death.
    """
    ours: dict[str, bytes] = {
        "stage": b"sink",
        "reason": reason.encode(),
        "kafka_dlt-exception-fqcn": f"rajada.{reason}".encode(),
        "kafka_dlt-exception-message": message.encode()[:MESSAGE_BYTES],
    }
    first: dict[str, bytes] = {
        "first-failed-at": str(now_ms).encode(),
        "kafka_dlt-original-topic": record.topic.encode(),
        "kafka_dlt-original-partition": str(record.partition).encode(),
        "kafka_dlt-original-offset": str(record.offset).encode(),
        "kafka_dlt-original-timestamp": str(record.timestamp).encode(),
    }
    names = {name for name, _ in record.headers}
    kept = [(name, value) for name, value in record.headers if name not in ours]
    return [*kept, *((n, v) for n, v in first.items() if n not in names), *ours.items()]
