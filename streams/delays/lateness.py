"""How late records reach `dispatch.jobs`, and what the forwarder has done (pure)."""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

from telemetry.distribution import Distribution

SPAN_S: Final = 60.0
"""The figures are those of the last minute."""
BAR_MS: Final = 500
"""The 99th percentile at most (design, Bars)."""
_MOST: Final = 20_000


@dataclass(frozen=True, slots=True)
class Figures:
    """Of the records that became due in the last minute, in ms."""

    records: int
    p50_ms: int
    p99_ms: int
    max_ms: int


class Lateness:
    """Takes in how late each record was when it had reached `dispatch.jobs`."""

    def __init__(self) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=_MOST)

    def add(self, late_ms: float, monotonic_s: float) -> None:
        """One record, ms after it was due."""
        self._seen.append((monotonic_s, late_ms))

    def figures(self, monotonic_s: float) -> Figures:
        """Of the last minute; zeros when nothing became due."""
        while self._seen and self._seen[0][0] < monotonic_s - SPAN_S:
            self._seen.popleft()
        late = sorted(late_ms for _, late_ms in self._seen)
        if not late:
            return Figures(0, 0, 0, 0)
        ranks = (math.ceil(share * len(late)) - 1 for share in (0.5, 0.99, 1.0))
        return Figures(len(late), *(round(late[rank]) for rank in ranks))


@dataclass(slots=True)
class Tally:
    """Counts since the process began."""

    forwarded: int = 0
    """Hops: from a delay topic to another one or to `dispatch.jobs`."""
    due: int = 0
    """Of these: to `dispatch.jobs`."""
    dead: int = 0
    undone: int = 0
    """Transactions that were aborted, and made again."""
    lateness: Lateness = field(default_factory=Lateness)
    """Of the last minute."""
    late: Distribution = field(default_factory=Distribution)
    """Seconds, of all."""
