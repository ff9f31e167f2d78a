"""What the alert pass saw when it last looked, as metrics: only the sink that has the lease looks."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from telemetry import catalogue
from telemetry.readings import Reading, by_label

ROUNDS: Final = 3
"""What nobody has looked at for so many rounds is not shown any more: another sink looks now."""

RAISED: Final[Counter[str]] = Counter()
"""Alerts that this process opened or counted up, by kind."""
FAILED: Final[Counter[str]] = Counter()
"""Alerts that it could not write, by kind."""


@dataclass(slots=True)
class Seen:
    """The last look of each watch; `every_s` is the time between two rounds."""

    every_s: float
    slots: Mapping[str, tuple[int, bool]] = field(default_factory=dict)
    """Slot → bytes of WAL that are kept for it, and whether it is lost."""
    letters: Mapping[str, int] = field(default_factory=dict)
    """Topic → dead letters that nobody dealt with."""
    alerts: Mapping[str, int] = field(default_factory=dict)
    """Kind → alerts that are open."""
    now_s: Callable[[], float] = time.monotonic
    _at_s: float | None = None

    def looked(self) -> None:
        """A round is over."""
        self._at_s = self.now_s()

    def readings(self) -> Iterator[Reading]:
        """As metrics."""
        yield from by_label(catalogue.ALERTS_RAISED, RAISED.copy())
        yield Reading(catalogue.ALERTS_FAILED, FAILED.total())
        if self._at_s is None or self.now_s() - self._at_s > self.every_s * ROUNDS:
            return
        for slot, (kept, lost) in self.slots.items():
            yield Reading(catalogue.SLOT_LAG, kept, (slot,))
            yield Reading(catalogue.SLOT_LOST, int(lost), (slot,))
        yield from by_label(catalogue.DEAD_LETTERS_OPEN, self.letters)
        yield from by_label(catalogue.ALERTS_OPEN, self.alerts)
