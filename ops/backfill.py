"""`rajada sweep`: one sweep by hand, or a back-fill of older rows that waits while others are behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from db.leases import new_holder
from db.sweep_claims import Claims, Conditions, Waiting
from ops.asking import asking
from ops.errors import OpsError
from settings import Settings
from streams.sweep import PAGE
from streams.sweeping import Pace, Round, Sweeper

INTERRUPTED: Final = 130
"""Exit code after Ctrl-C."""
LOOK_AGAIN_S: Final = 2.0
"""How long a back-fill waits before it asks again whether others keep up."""


class SweepHeld(OpsError):
    """Nothing may be published again now: the message says who is behind."""


class SweepBusy(OpsError):
    """Another process sweeps now; try again in a moment."""


@dataclass(slots=True)
class Result:
    """What came of a command."""

    published: int = 0
    held: str | None = None
    """Why it stopped, or waits, before everything was published."""
    busy: bool = False
    stopped: bool = False
    """By Ctrl-C or SIGTERM."""


Watch = Callable[[Result], None]


class HandSweep:
    """Sweeps of one command; a context that holds its connection."""

    def __init__(self, url: str, bootstrap: str, settings: Settings, stop: threading.Event) -> None:
        self._url = url
        self._stop = stop
        self._sweeper = Sweeper(bootstrap, settings, stop)
        self._holder = new_holder()

    def waiting(self, conditions: Conditions) -> list[Waiting]:
        """What would be published again. Raises OpsError."""
        with asking(self._url), Claims(self._url, self._holder) as claims:
            return claims.waiting(conditions)

    def held(self) -> str | None:
        """Who is behind now, if anybody. Raises OpsError, LagUnknown."""
        with asking(self._url), Claims(self._url, self._holder) as claims:
            return self._sweeper.held(claims)

    def once(self, conditions: Conditions) -> Result:
        """Publish what is due, until somebody is behind. Raises OpsError, LagUnknown, SendFailed."""
        done = self._round(conditions, Pace(by_hand=True))
        return Result(done.published, done.held, done.busy)

    def until_done(self, conditions: Conditions, rate: float, watch: Watch) -> Result:
        """Publish all that is due, `rate` events a second at most; waits while somebody is behind.

        Ends early when stopped; running it again goes on, since what was published is remembered.
        """
        result = Result()
        limit = Limit(rate, self._stop)

        def after_page(done: Round) -> None:
            watch(Result(result.published + done.published))

        pace = Pace(
            by_hand=True,
            # a page takes half a second, so that the rate is even and a stop is quick
            page=max(1, min(PAGE, int(rate / 2))),
            before_page=limit.wait,
            after_page=after_page,
        )
        while not self._stop.is_set():
            done = self._round(conditions, pace)
            result.published += done.published
            result.held, result.busy = done.held, done.busy
            if done.ended:
                return result
            watch(result)
            self._stop.wait(LOOK_AGAIN_S)
        result.stopped = True
        return result

    def _round(self, conditions: Conditions, pace: Pace) -> Round:
        with asking(self._url), Claims(self._url, self._holder) as claims:
            return self._sweeper.round(claims, conditions, pace)


class Limit:
    """A limit of the rate: sleeps before a page until it may go, or until it is stopped."""

    def __init__(
        self, rate: float, stop: threading.Event, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._stop = stop
        self._monotonic = monotonic
        self._free_at = monotonic()

    def wait(self, events: int) -> None:
        """Wait for the turn of so many events."""
        now = self._monotonic()
        if self._free_at > now:
            self._stop.wait(self._free_at - now)
        self._free_at = max(now, self._free_at) + events / self._rate


def total(waiting: Sequence[Waiting]) -> int:
    """Events of all organizations."""
    return sum(one.events for one in waiting)
