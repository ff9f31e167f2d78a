"""Signs of life of Debezium's connectors: who gives them, and when silence is too long."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

import psycopg

from db.queries import load

LEAST_SILENCE_S: Final = 60.0
_INTERVALS: Final = 6


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A connector's signs of life: how many, how long ago the last was and how often they come, seconds."""

    slot: str
    beats: int
    silent_s: float
    every_s: float
    has_slot: bool

    @property
    def silent(self) -> bool:
        """Whether something is wrong with the connector."""
        return self.silent_s > longest_silence_s(self.every_s)


def longest_silence_s(every_s: float) -> float:
    """After how many seconds without a sign of life something is wrong; `every_s`: their interval."""
    return max(LEAST_SILENCE_S, _INTERVALS * every_s)


def heartbeats(database: psycopg.Connection[Any]) -> list[Heartbeat]:
    """The slots that a connector of ours reads, with its last sign of life. Raises psycopg.Error."""
    rows = database.execute(load("heartbeats")).fetchall()
    return [Heartbeat(*cast("tuple[str, int, float, float, bool]", row)) for row in rows]
