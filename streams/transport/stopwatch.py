"""How often something took place and how long it took: for whoever shows the transport's numbers. Pure."""

from __future__ import annotations


class Stopwatch:
    """Lengths of time, in seconds of a clock that never steps. One thread writes, others may read."""

    __slots__ = ("_began", "last", "number", "total")

    def __init__(self) -> None:
        self._began: float | None = None
        self.number = 0
        """How many there were."""
        self.total = 0.0
        """All of them together."""
        self.last = 0.0
        """The last one; 0 before there is any."""

    def begin(self, now: float, *, anew: bool = False) -> None:
        """One begins; while one goes on it goes on, unless it is to be taken `anew`."""
        if self._began is None or anew:
            self._began = now

    def end(self, now: float) -> None:
        """It is over; nothing when none goes on."""
        if self._began is not None:
            self.last = now - self._began
            self.total += self.last
            self.number += 1
            self._began = None
