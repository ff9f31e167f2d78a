"""Which offsets of a topic are meant: what an operator typed against what the log holds (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Bounds = tuple[int, int]
"""The first offset of a partition, and the one after its last."""


class WrongStretch(ValueError):
    """What was asked for can't be meant; the message says why."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A stretch as it was typed; times as the offsets that Kafka found for them (None: none so late)."""

    from_offset: int | None = None
    to_offset: int | None = None
    """The last one, inclusive."""
    from_time: Mapping[int, int] | None = None
    """By partition the first record since then; a partition without one is left out."""
    to_time: Mapping[int, int] | None = None
    partition: int | None = None


@dataclass(slots=True)
class Stretch:
    """Offsets to be read, and what was asked for and is not there."""

    ranges: dict[int, Bounds] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def stretch(asked: Asked, log: Mapping[int, Bounds]) -> Stretch:
    """The offsets that are meant; raises WrongStretch.

    Args:
        asked: what was typed.
        log: what each partition holds now.
    """
    if asked.partition is not None and asked.partition not in log:
        raise WrongStretch(f"there is no partition {asked.partition}; they are 0 to {max(log, default=0)}")
    if (asked.from_offset, asked.to_offset) != (None, None) and asked.partition is None and len(log) > 1:
        raise WrongStretch("offsets are those of one partition: name it with --partition")
    found = Stretch()
    for partition, bounds in sorted(log.items()):
        if asked.partition in (None, partition):
            _one(asked, partition, bounds, found)
    return found


def _one(asked: Asked, partition: int, bounds: Bounds, found: Stretch) -> None:
    start, end = bounds
    first, below = start, end
    if asked.from_time is not None:
        first = max(first, asked.from_time.get(partition, end))
    if asked.to_time is not None:
        below = min(below, asked.to_time.get(partition, end))
    if asked.from_offset is not None:
        if asked.from_offset >= end:
            raise WrongStretch(f"partition {partition} ends at offset {end - 1}, before {asked.from_offset}")
        if asked.from_offset < start:
            gone = f"{asked.from_offset} to {start - 1} are gone"
            found.notes.append(f"Partition {partition} begins at offset {start}: {gone}.")
        first = max(first, asked.from_offset)
    if asked.to_offset is not None:
        if asked.to_offset < (asked.from_offset or 0):
            raise WrongStretch(f"--to-offset {asked.to_offset} lies before --from-offset {asked.from_offset}")
        if asked.to_offset >= end:
            found.notes.append(f"Partition {partition} ends at offset {end - 1}; it is read up to there.")
        below = min(below, asked.to_offset + 1)
    if first < below:
        found.ranges[partition] = (first, below)
