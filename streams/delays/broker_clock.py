"""What time it is on Kafka's clock, from readings of it and our monotonic clock (pure).

A record may reach `dispatch.jobs` when Kafka's clock says so, which wrote the time of its append. Our own
wall clock may be wrong or may be set while a record waits, so it is not asked at all.
"""

from __future__ import annotations

from typing import Final

DRIFT: Final = 0.0005
"""How much faster than Kafka's our monotonic clock may run; a machine under NTP stays within it."""


class BrokerClock:
    """A lower bound of Kafka's time: what it says has passed there, too. Not thread-safe.

    A reading is the time t of an append that was asked for at `asked` and answered at `answered`. So Kafka's
    clock was at most t when we asked and at least t when the answer came: the answer is the safe moment to
    count from. A reading that agrees with what we believed tightens it; one that doesn't replaces it,
    because somebody has set Kafka's clock.
    """

    def __init__(self) -> None:
        self._at_ms = 0.0
        self._read_s: float | None = None

    def observe(self, append_ms: int, asked_s: float, answered_s: float) -> None:
        """Take in one reading: `append_ms` in Unix ms, the others in monotonic seconds."""
        least = float(append_ms)
        most = append_ms + 1 + (answered_s - asked_s) * 1000  # Kafka cuts its time down to whole ms
        believed = self.now_ms(answered_s)
        self._at_ms = least if believed is None or believed > most else max(believed, least)
        self._read_s = answered_s

    def now_ms(self, monotonic_s: float) -> float | None:
        """Kafka's time at a moment of ours, Unix ms; None before the first reading.

        It is behind the real one by what a reading took at most, and never ahead of it.
        The longer ago the last reading, the more is taken off for two clocks that don't run alike.
        """
        if self._read_s is None:
            return None
        return self._at_ms + max(0.0, monotonic_s - self._read_s) * 1000 * (1 - DRIFT)

    def age_s(self, monotonic_s: float) -> float | None:
        """Seconds since the last reading; None before the first."""
        return None if self._read_s is None else monotonic_s - self._read_s
