"""A histogram that costs a bisection: written by one thread, read by another at scrape time (pure)."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import Final, NamedTuple

FAST: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
"""Bounds in seconds for what should be over within a moment; the bars 100, 150, 250 and 500 ms are bounds."""
SLOW: Final = (0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 8.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0)
"""Bounds in seconds for what takes a window, an engine's answer or a retry; 8 s is the window by itself."""


class Read(NamedTuple):
    """A distribution as it was at one moment."""

    bounds: tuple[float, ...]
    """Upper bounds, ascending; one bucket more than that, for what is above all of them."""
    counts: tuple[int, ...]
    """Values in each bucket by itself, not added up."""
    total: float


class Distribution:
    """Counts values by upper bounds.

    Args:
        bounds: upper bounds, ascending, in the metric's unit.
    """

    __slots__ = ("_bounds", "_counts", "_total")

    def __init__(self, bounds: Sequence[float] = FAST) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0

    def observe(self, value: float) -> None:
        """Take in one value; what is below zero (clocks that differ) counts as zero."""
        value = max(value, 0.0)
        self._counts[bisect_left(self._bounds, value)] += 1
        self._total += value

    @property
    def count(self) -> int:
        """Values taken in."""
        return sum(self._counts)

    def read(self) -> Read:
        """As it is now; a value that is just coming in may be in the counts and not yet in the total."""
        return Read(self._bounds, tuple(self._counts), self._total)


class Family:
    """Distributions by label values, made when they are first needed.

    Args:
        bounds: of each of them.
    """

    __slots__ = ("_bounds", "_members")

    def __init__(self, bounds: Sequence[float] = FAST) -> None:
        self._bounds = tuple(bounds)
        self._members: dict[tuple[str, ...], Distribution] = {}

    def observe(self, value: float, *labels: str) -> None:
        """Take in one value under these label values: from a small fixed set, never ids."""
        member = self._members.get(labels)
        if member is None:
            member = self._members[labels] = Distribution(self._bounds)
        member.observe(value)

    def read(self) -> dict[tuple[str, ...], Read]:
        """All of them as they are now."""
        return {labels: member.read() for labels, member in self._members.copy().items()}
