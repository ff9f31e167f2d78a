"""Windows whose statement times out while others are answered (pure).

A timeout says little about a window: the database may be busy. Only one that times out again and again
while others succeed has a trouble of its own (spec/dispatch.md, Failures in step 4).
"""

from __future__ import annotations

from typing import Final

SPENDS_AFTER: Final = 5
_REMEMBERED: Final = 10_000


class SlowWindows:
    """Counts, per window, the timeouts between which others were answered."""

    def __init__(self) -> None:
        self._answered = 0
        self._timeouts: dict[str, tuple[int, int]] = {}
        """Window → its timeouts that count, and how many answers there had been at the last one."""

    def answered(self, windows: int, names: frozenset[str]) -> None:
        """So many windows were read, these among them: what they did before is forgotten."""
        self._answered += windows
        for name in self._timeouts.keys() & names:
            del self._timeouts[name]

    def timed_out(self, name: str) -> bool:
        """A window timed out alone; True when that spends an attempt, the fifth time that counts."""
        count, answered_then = self._timeouts.pop(name, (0, 0))
        if self._answered > answered_then:
            count += 1
        if count >= SPENDS_AFTER:
            return True
        self._timeouts[name] = (count, self._answered)
        if len(self._timeouts) > _REMEMBERED:
            del self._timeouts[next(iter(self._timeouts))]
        return False
