"""Distributions of times, and how late windows are decided."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import msgspec

from bench.backlog import read_all
from schemas.codec import decode_outcome
from schemas.records import Outcome
from settings import Settings
from streams import topics


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution in ms."""

    count: int
    least: float
    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Latency:
        """The distribution of values (at least one), nearest rank."""
        ranked = sorted(values)

        def at(share: float) -> float:
            return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

        return cls(len(ranked), ranked[0], at(0.5), at(0.99), ranked[-1])


def lateness(bootstrap: str, settings: Settings, since_ms: int = 0) -> list[float]:
    """Decision less deadline in ms, of every window decided since then (ms since the epoch)."""
    windows = _windows(bootstrap, settings)
    return [float(outcome.at_ms - ended_ms) for outcome, ended_ms, _ in windows if outcome.at_ms >= since_ms]


def longest_wait_s(bootstrap: str, settings: Settings) -> float:
    """From a window's deadline to the first record that tells its outcome, seconds; the longest of any."""
    first: dict[str, int] = {}
    for outcome, ended_ms, appended_ms in _windows(bootstrap, settings):
        window, waited_ms = outcome.events[0].event_id, appended_ms - ended_ms
        first[window] = min(first.get(window, waited_ms), waited_ms)
    return max(first.values()) / 1000


def _windows(bootstrap: str, settings: Settings) -> Iterator[tuple[Outcome, int, int]]:
    """Each record that tells what came of a window: the outcome, the deadline, when it was appended (ms)."""
    for record in read_all(bootstrap, settings.topic(topics.OUTCOMES), settings.partitions):
        value = record.value()
        assert isinstance(value, bytes), "records of ours have a value"
        outcome = decode_outcome(value)
        if outcome.outcome is None:
            continue  # what became of a job later
        facts = msgspec.json.decode(outcome.facts or "{}", type=dict[str, object])
        deadline_ms = facts["deadline_ms"]
        assert isinstance(deadline_ms, int), "an outcome of a window tells its deadline"
        yield outcome, deadline_ms, record.timestamp()[1]
