"""Memory and lag over time (pure): samples, and whether a curve is flat."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final

WARM_UP: Final = 0.25
"""The first part of a run that doesn't count: caches fill, the JVM compiles."""
FLAT_GROWTH: Final = 0.10
"""By so much the last quarter's median may lie above that of the quarter after the warm-up."""
FLAT_MIB: Final = 12.0
"""Or by so many MiB, for small processes."""
FLAT_RECORDS: Final = 2_000
"""Or by so many records, for lags."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One look at everything."""

    at_s: float
    """Since the load began."""
    written: int
    """Events put in so far."""
    mib: Mapping[str, float] = field(default_factory=dict)
    """Process → memory of its own (PSS), MiB; a server with its children."""
    lag: Mapping[str, int] = field(default_factory=dict)
    """What waits → how many records or rows."""
    load: float = 0.0
    """The machine's load average of a minute."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One curve in numbers."""

    name: str
    first: float
    """Median of the quarter after the warm-up."""
    last: float
    """Median of the last quarter."""
    most: float
    per_hour: float
    """Slope by least squares after the warm-up."""
    flat: bool


def curves(samples: Sequence[Sample]) -> list[Curve]:
    """All curves of a run, memory first."""
    names = sorted({name for one in samples for name in one.mib})
    found = [
        _curve(name, [(one.at_s, one.mib[name]) for one in samples if name in one.mib], FLAT_MIB)
        for name in names
    ]
    lags = sorted({name for one in samples for name in one.lag})
    found += [
        _curve(f"lag {name}", [(one.at_s, float(one.lag[name])) for one in samples if name in one.lag],
               FLAT_RECORDS)
        for name in lags
    ]  # fmt: skip
    return found


def _curve(name: str, points: Sequence[tuple[float, float]], slack: float) -> Curve:
    counted = points[int(len(points) * WARM_UP) :] or points
    third = max(1, len(counted) // 3)
    first = median(value for _, value in counted[:third])
    last = median(value for _, value in counted[-third:])
    flat = last <= max(first * (1 + FLAT_GROWTH), first + slack)
    return Curve(name, first, last, max(value for _, value in points), _slope(counted) * 3600, flat)


def _slope(points: Sequence[tuple[float, float]]) -> float:
    count = len(points)
    x_mean = sum(x for x, _ in points) / count
    y_mean = sum(y for _, y in points) / count
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread else 0.0
