"""What became of the outcomes that were passed: written, dead, or put off (spec/jobs.md, "Dead letters").

Counted when the offset behind them has moved, so what is read again after a failure counts once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Final

import status
from sinks.batch import Taken
from telemetry import catalogue
from telemetry.distribution import SLOW, Distribution
from telemetry.readings import Reading, spread

EVERY_S: Final = 5.0


@dataclass(slots=True)
class Counts:
    """Since the process started; every record is in exactly one place beside `passed`."""

    passed: int = 0
    written: int = 0
    dead: int = 0
    postponed: int = 0
    """Of a newer version: they wait for a sink that knows it."""

    def add(self, batch: Iterable[Taken]) -> None:
        """These were passed: their offsets have moved."""
        for taken in batch:
            if taken.record is None:
                continue  # the end of a partition
            self.passed += 1
            if taken.outcome is not None:
                self.written += 1
            elif taken.later:
                self.postponed += 1
            else:
                self.dead += 1


class Meter:
    """Tells the counts for `rajada status`, every few seconds."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._at_s = 0.0
        self.counts = Counts()
        self.ages = Distribution(SLOW)
        """Seconds: of each batch, the age of its oldest outcome when it was written."""

    def passed(self, batch: Sequence[Taken], now_ms: int) -> None:
        """A batch was passed: its offsets have moved."""
        self.counts.add(batch)
        oldest_ms = min((taken.outcome.at_ms for taken in batch if taken.outcome is not None), default=None)
        if oldest_ms is not None:
            self.ages.observe((now_ms - oldest_ms) / 1000)

    def readings(self) -> Iterator[Reading]:
        """The counts as metrics."""
        counts = self.counts
        yield Reading(catalogue.RECORDS_READ, counts.passed, (self._name,))
        fates = {"written": counts.written, "dead": counts.dead, "postponed": counts.postponed}
        for fate, number in fates.items():
            yield Reading(catalogue.RECORDS, number, (self._name, fate))
        yield Reading(catalogue.DEAD_LETTERS, counts.dead, (self._name,))
        yield from spread(catalogue.OUTCOME_AGE, self.ages)

    def tell(self) -> None:
        """Leave the numbers, if the last ones are old enough."""
        now_s = time.monotonic()
        if now_s >= self._at_s:
            self._at_s = now_s + EVERY_S
            status.counters(self._name, asdict(self.counts))
