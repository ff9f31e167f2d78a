"""Unix time that a step of the machine's clock does not move (spec/dispatch.md, step 3, *Time*; pure).

Windows, retries and their records compare times of several machines. A wall clock that somebody sets by an
hour would cut every open window short, or send a retry an hour late or at once. So ours goes on as the
monotonic clock does, follows the wall clock's small corrections, and takes a step over only when the
database's clock says that the step was right. With which time it begins, the database says, too: events carry
its time, and a machine that was started with a wrong one has nothing else to be told by.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

STEP_MS: Final = 1_000.0
"""What moves the wall clock by more between two looks is a step; NTP slews by half a millisecond a second."""


class SteadyClock:
    """The wall clock, without its steps.

    Args:
        wall_ns: Unix ns, which may be set.
        monotonic_ns: ns that only go on.
        step_ms: see `STEP_MS`.
    """

    def __init__(
        self,
        wall_ns: Callable[[], int] = time.time_ns,
        monotonic_ns: Callable[[], int] = time.monotonic_ns,
        *,
        step_ms: float = STEP_MS,
    ) -> None:
        self._wall_ns, self._monotonic_ns, self._step_ns = wall_ns, monotonic_ns, step_ms * 1_000_000
        self._offset_ns = self._seen_ns = wall_ns() - monotonic_ns()
        self._compared = False

    def now_ms(self) -> int:
        """Unix ms."""
        monotonic_ns = self._monotonic_ns()
        offset_ns = self._wall_ns() - monotonic_ns
        moved_ns = offset_ns - self._seen_ns
        self._seen_ns = offset_ns
        if abs(moved_ns) > self._step_ns:
            log.warning("clock_stepped", by_ms=round(moved_ns / 1e6), what="not followed, see clock_skew")
        else:
            self._offset_ns += moved_ns
        return (monotonic_ns + self._offset_ns) // 1_000_000

    @property
    def apart_ms(self) -> float:
        """How far ours is ahead of the wall clock, ms: what of that was not followed."""
        return (self._offset_ns - self._seen_ns) / 1e6

    def compare(self, skew_ms: float) -> None:
        """The database's clock is so far ahead of `now_ms`.

        The first time, one that is ahead or behind by a step is begun with. Later steps are taken over if it
        agrees with them more.
        """
        first, self._compared = not self._compared, True
        stepped_ms = -self.apart_ms
        if stepped_ms and abs(skew_ms - stepped_ms) < abs(skew_ms):
            self._offset_ns = self._seen_ns
            log.warning("clock_step_taken_over", by_ms=round(stepped_ms))
        elif first and abs(skew_ms) * 1e6 > self._step_ns:
            self._offset_ns += round(skew_ms * 1e6)
            log.error(
                "clock_wrong_at_the_start",
                behind_ms=round(skew_ms),
                what="the database's time is used",
                what_to_do="run NTP on this machine and on the database's",
            )
