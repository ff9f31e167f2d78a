"""A number on its way to whoever scrapes: which metric, which labels, how much (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple, TypeAlias

from telemetry.catalogue import Metric
from telemetry.distribution import Distribution, Family, Read


class Summary(NamedTuple):
    """How many there were, and their sum in the metric's unit."""

    number: int
    total: float


class Reading(NamedTuple):
    """One sample; `labels` are values in the order of the metric's label names."""

    metric: Metric
    value: float | Read | Summary
    labels: tuple[str, ...] = ()


Source: TypeAlias = Callable[[], Iterable[Reading]]
"""Reads numbers at scrape time, in the scrape's thread: plain attributes and copies only."""


def by_label(metric: Metric, numbers: Mapping[str, float]) -> list[Reading]:
    """A reading for each value of the metric's one label."""
    return [Reading(metric, value, (label,)) for label, value in numbers.items()]


def spread(metric: Metric, numbers: Distribution | Family) -> list[Reading]:
    """The readings of a histogram."""
    if isinstance(numbers, Distribution):
        return [Reading(metric, numbers.read())]
    return [Reading(metric, read, labels) for labels, read in numbers.read().items()]
