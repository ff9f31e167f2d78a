"""What runs that copy records have in common: how far one is, and what it wrote without recording it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import msgspec

from ops.why.reader import TopicReader, headers_of
from settings import Settings
from streams.requeueing import source_of

LATE_MS: Final = 3 * 60 * 1000
"""A page's copies were appended at most so long after the page before it was recorded."""
STALL_S: Final = 30.0
"""Kafka gives no record for so long: it is away."""


class Progress(msgspec.Struct):
    """How far a run is, as it is stored."""

    next: dict[int, int] = {}
    """Partition → the next record to look at."""
    targets: dict[str, dict[int, int]] = {}
    """Topic (without prefix) → partition → all below was written before the page that comes next."""
    noted_ms: int = 0

    def reach(self, following: Mapping[int, int], ends: Mapping[str, Mapping[int, int]]) -> None:
        """Note a page: where it led to, and how far the targets are written since."""
        self.next |= following
        for topic, some in ends.items():
            self.targets.setdefault(topic, {}).update(some)
        self.noted_ms = time.time_ns() // 1_000_000


def written_since(reader: TopicReader, settings: Settings, progress: Progress) -> set[str]:
    """Of what (`<topic>/<partition>/<offset>`) copies were written after the last page that was recorded.

    Only the run's next page can have any: a process that is killed between writing and recording leaves them.
    Raises Unreachable.
    """
    found: set[str] = set()
    until_ms = progress.noted_ms + LATE_MS
    for name, begins in progress.targets.items():
        topic = settings.topic(name)
        late = reader.since(topic, until_ms)
        ranges = {}
        for partition, begin in begins.items():
            start, end = reader.bounds(topic, partition)
            ranges[partition] = (max(start, begin), min(end, late.get(partition, end)))
        for message in reader.read(topic, ranges, stall_s=STALL_S):
            source = source_of(headers_of(message))
            if source:
                found.add(source)
    return found
