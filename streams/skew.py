"""Clock skew between the database and this worker, measured with every decision (spec, step 3, *Time*).

Event times are the database's commit times; timers run here. Skew never makes a window longer than its
length, but it cuts windows short or lets them start late, so more than a second of it is an alarm.
"""

from __future__ import annotations

from typing import Final

import structlog

log = structlog.get_logger(__name__)

ALARM_MS: Final = 1_000.0
AGAIN_AFTER_MS: Final = 60_000


class ClockSkew:
    """Keeps the last measurement; says so once a minute while it is too large, and when it is over."""

    def __init__(self) -> None:
        self.ms = 0.0
        """Database minus worker, in ms, as last measured."""
        self._told_ms: int | None = None

    def observe(self, database_ms: float, asked_ms: int, answered_ms: int) -> None:
        """Take in one reading: the database's clock, read between two moments of ours.

        The reading counts for as much as it is certain: its distance to the nearer end of the interval.
        """
        if database_ms > answered_ms:
            self.ms = database_ms - answered_ms
        else:
            self.ms = min(database_ms - asked_ms, 0.0)
        if abs(self.ms) <= ALARM_MS:
            if self._told_ms is not None:
                self._told_ms = None
                log.info("clock_skew_over", skew_ms=round(self.ms))
        elif self._told_ms is None or answered_ms - self._told_ms >= AGAIN_AFTER_MS:
            self._told_ms = answered_ms
            log.error(
                "clock_skew",
                skew_ms=round(self.ms),
                what_to_do="run NTP on the database's machine and on the workers'; windows are cut wrongly",
            )
