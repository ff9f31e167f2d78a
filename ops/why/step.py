"""One thing that happened (pure data)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import msgspec

Level = Literal["begin", "info", "good", "stop", "warn", "dead"]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that happened."""

    at_ms: int
    what: str
    """A name for programs: arrived, window_opened, decided, failed, swept, dead_letter, job, moved, order,
    settled or alert."""
    title: str
    level: Level = "info"
    details: Sequence[str] = ()
    events: Sequence[str] = ()
    """The events it happened to, where a story is of several."""
    outcome: str | None = None


def milliseconds(moment: datetime) -> int:
    """Unix ms."""
    return int(moment.timestamp() * 1000)
