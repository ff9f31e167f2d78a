"""The pulse of a process: each of its loops says now and then that it goes round.

A module's state, since a process has one pulse: whatever loop goes round says so without being handed
anything. Costs a clock reading and a dictionary write.
"""

from __future__ import annotations

from time import monotonic
from typing import Final

MAIN: Final = "main"
"""The loop without which a process does nothing."""

_beats: dict[str, float] = {}


def beat(loop: str = MAIN) -> None:
    """The loop goes round."""
    _beats[loop] = monotonic()


def silences() -> dict[str, float]:
    """Seconds since each loop was heard of last; a loop that never began is not in it."""
    now = monotonic()
    return {loop: now - at for loop, at in _beats.copy().items()}


def forget() -> None:
    """Drop all that was said (tests)."""
    _beats.clear()
