"""Looks at the schedule, fires, and lets the runs go on beside it.

Any number of clocks may look at one schedule: the database decides whose firing it is. A clock that is asked
(`ask`) notes the request in the database; whichever looks first serves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

import psycopg
import structlog

from db.pool import is_away
from streams.reconcile.ledger import Firing, Ledger, Row
from streams.reconcile.run import Made, Runner
from streams.reconcile.schedule import Schedule
from streams.reconcile.ticking import look
from telemetry import catalogue
from telemetry.readings import Reading, by_label

log = structlog.get_logger(__name__)

LOOK_EVERY_S: Final = 15.0
"""The longest pause between two looks: what others ask for, and a run that was lost, is seen then."""
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 15.0
STOP_S: Final = 10.0


@dataclass(slots=True)
class Tally:
    """What the runs of this process have done, and what the schedule has counted for all processes."""

    runs: int = 0
    ends: dict[str, int] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    unknown: int = 0
    ticks_skipped: int = 0
    ticks_missed: int = 0
    last: str = "none yet"

    def add(self, made: Made) -> None:
        """A run has ended."""
        self.runs += 1
        self.ends[made.end] = self.ends.get(made.end, 0) + 1
        for name, count in made.report.counts().items():
            self.counts[name] = self.counts.get(name, 0) + count
        self.unknown = sum(made.report.unknown.values())
        self.last = f"{made.end} in {made.took_s:.1f} s"

    def told(self) -> dict[str, int | str]:
        """For `status.counters`."""
        failed = sum(count for end, count in self.ends.items() if end != "done")
        return {
            "runs": self.runs,
            "runs_failed": failed,
            **self.counts,
            "unknown_states": self.unknown,
            "ticks_skipped": self.ticks_skipped,
            "ticks_missed": self.ticks_missed,
            "last": self.last,
        }

    def readings(self) -> Iterator[Reading]:
        """As metrics."""
        yield from by_label(catalogue.RUNS, self.ends.copy())
        yield from by_label(catalogue.INSTANCES, self.counts.copy())
        lost = {"skipped": self.ticks_skipped, "missed": self.ticks_missed}
        yield from by_label(catalogue.TICKS_LOST, lost)


class Clock:
    """One process' view of a schedule.

    Args:
        schedule: when it ticks.
        ledger: its rows.
        runner: makes the runs.
        say: hears what the clock waits for; None: for nothing.
    """

    def __init__(
        self,
        schedule: Schedule,
        ledger: Ledger,
        runner: Runner,
        say: Callable[[str | None], None] = lambda reason: None,
    ) -> None:
        self._schedule = schedule
        self._ledger = ledger
        self._runner = runner
        self._say = say
        self._woken = asyncio.Event()
        self._running: asyncio.Task[None] | None = None
        self.tally = Tally()

    async def run(self) -> None:
        """Look, fire, sleep, until cancelled; the run that goes on then is ended in order."""
        wait_s = FIRST_WAIT_S
        try:
            while True:
                try:
                    pause_s = await self.step()
                except (psycopg.Error, OSError) as error:
                    self._say(_told(error))
                    pause_s, wait_s = wait_s, min(wait_s * 2, LONGEST_WAIT_S)
                else:
                    self._say(None)
                    wait_s = FIRST_WAIT_S
                await self._sleep(pause_s)
        finally:
            if self._running is not None:
                self._running.cancel()
                await asyncio.wait({self._running}, timeout=STOP_S)

    async def ask(self, request: UUID) -> None:
        """Note a request for a run, however long the database is away."""
        wait_s = FIRST_WAIT_S
        while True:
            try:
                await self._ledger.ask(request)
            except (psycopg.Error, OSError) as error:
                if not is_away(error):
                    raise
                await asyncio.sleep(wait_s)
                wait_s = min(wait_s * 2, LONGEST_WAIT_S)
            else:
                self._woken.set()
                return

    async def step(self) -> float:
        """Look once and do what follows; returns for how many seconds there is nothing to do."""
        row = await self._ledger.look()
        todo = look(self._schedule, row.seen)
        self.tally.ticks_skipped = row.skipped + todo.skipped
        self.tally.ticks_missed = row.missed + todo.missed
        if todo.fire is not None and self._running is None:
            firing = await self._ledger.fire(row, todo)
            if firing is None:
                return 0.0  # somebody was quicker: look what is left to do
            self._begin(firing, row)
            return 0.0
        if todo.settled is not None and todo.fire is None and not await self._ledger.settle(row, todo):
            return 0.0
        until_due = (todo.wake_at - row.seen.now).total_seconds()
        return min(LOOK_EVERY_S, max(until_due, 0.0))

    def _begin(self, firing: Firing, row: Row) -> None:
        log.info(
            "reconciliation_begins",
            kind=firing.kind,
            tick=firing.tick.isoformat() if firing.tick else None,
            ticks_missed=self.tally.ticks_missed - row.missed,
        )
        self._running = asyncio.create_task(self._make(firing))

    async def _make(self, firing: Firing) -> None:
        try:
            self.tally.add(await self._runner.make(firing))
        finally:
            self._running = None
            self._woken.set()

    async def _sleep(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()


def _told(error: Exception) -> str:
    if is_away(error):
        return "Postgres is away"
    if isinstance(error, psycopg.errors.UndefinedTable):
        return "the database is not prepared: run `rajada migrate`"
    return f"Postgres refuses a statement ({getattr(error, 'sqlstate', None) or type(error).__name__})"
