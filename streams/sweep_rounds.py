"""The worker's sweep: a round every minute beside the streams, which it can neither stop nor slow."""

from __future__ import annotations

import asyncio
import threading
from typing import Final

import psycopg
import structlog

from db.leases import new_holder
from db.pool import is_away
from db.sweep_claims import Claims
from settings import RajadaError, Settings
from streams.sweep import MOST_PAGES
from streams.sweeping import Pace, Round, Sweeper, conditions

log = structlog.get_logger(__name__)

REST: Final = 0.9
"""Share of the interval in which no other worker begins a round: clocks and rounds may jitter."""


class SweepRounds:
    """Sweeps for as long as `run` runs; `told` gives its numbers at any time."""

    def __init__(self, url: str, bootstrap: str, settings: Settings) -> None:
        self._url = url
        self._settings = settings
        self._holder = new_holder()
        self._stop = threading.Event()
        self._sweeper = Sweeper(bootstrap, settings, self._stop)
        self._state = "has not begun"
        self.held_by: str | None = None
        """Who is behind, so that the sweep rests; None: it works."""
        self._published = self._held = self._failed = 0

    def told(self) -> dict[str, int | str]:
        """Events published again, rounds that were held back or failed, and how the last one went."""
        return {
            "swept": self._published,
            "sweeps_held": self._held,
            "sweeps_failed": self._failed,
            "sweep": self._state,
        }

    async def run(self) -> None:
        """A round every interval, for ever; whatever goes wrong in one is told, and the next one tries."""
        try:
            while True:
                await asyncio.sleep(self._settings.sweep_every_s)
                try:
                    self._tell(await asyncio.to_thread(self._round))
                except (psycopg.Error, OSError, RajadaError) as error:
                    self._could_not(error)
                except (
                    Exception
                ) as error:  # the sweep is a safety net: its own defect must not stop the worker
                    self._could_not(error)
                    log.exception("sweep_defect")
        finally:
            self._stop.set()

    def _round(self) -> Round:
        pace = Pace(most_pages=MOST_PAGES, rest_s=self._settings.sweep_every_s * REST)
        with Claims(self._url, self._holder) as claims:
            return self._sweeper.round(claims, conditions(self._settings), pace)

    def _tell(self, done: Round) -> None:
        self._published += done.published
        self.held_by = done.held
        if done.published:
            log.warning("swept", events=done.published, **done.by_type)
        if done.held is not None:
            self._held += 1
            self._state = f"held: {done.held}"
            log.error("sweep_held", reason=done.held)
        else:
            self._state = "another worker's turn" if done.busy else "well"

    def _could_not(self, error: Exception) -> None:
        self._failed += 1
        if isinstance(error, psycopg.Error):
            what = "Postgres is away" if is_away(error) else f"Postgres refuses it ({error.sqlstate})"
        else:
            what = str(error) if isinstance(error, RajadaError) else type(error).__name__
        self._state = f"failed: {what}"
        log.warning("sweep_failed", reason=what)
