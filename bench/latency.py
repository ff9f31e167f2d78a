"""Distributions of times, and how late windows are decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from bench.backlog import read_all
from schemas.codec import decode_outcome
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
    late = []
    for record in read_all(bootstrap, settings.topic(topics.OUTCOMES), settings.partitions):
        value = record.value()
        assert isinstance(value, bytes), "records of ours have a value"
        outcome = decode_outcome(value)
        if outcome.outcome is None or outcome.at_ms < since_ms:
            continue  # what became of a job later
        facts = msgspec.json.decode(outcome.facts or "{}", type=dict[str, object])
        deadline_ms = facts["deadline_ms"]
        assert isinstance(deadline_ms, int), "an outcome of a window tells its deadline"
        late.append(float(outcome.at_ms - deadline_ms))
    return late
