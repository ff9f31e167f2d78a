"""Which ticks are fired, skipped or missed, decided from what the schedule's row says (pure).

A tick that is due while a run goes on is skipped; one that came while nobody was there is missed; of those
the newest is made up for by one late run, if it is not too late. Nothing depends on who was awake when:
the row and the time decide. Rule: spec/reconciler.md, the schedule.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final, Literal
from uuid import UUID

from streams.reconcile.schedule import Schedule

Kind = Literal["tick", "late", "asked", "once"]
"""Why a run is made: its tick, a tick that was late, a request, or `rajada reconcile --once`."""

LATE: Final = timedelta(seconds=30)
"""From here on a tick is called late."""
MOST_COUNTED: Final = 10_000
"""So many missed ticks are counted at most: months of downtime shall not keep a start waiting."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The row of a schedule as it was seen; all times are the database's."""

    now: datetime
    seed: UUID
    settled: datetime | None
    """The newest tick that was fired, skipped or missed; None: there was none yet."""
    run_until: datetime | None
    """Until when a run goes on, or when the last one ended; None: there was none."""
    waiting: int = 0
    """Requests that no run serves yet."""

    @property
    def running(self) -> bool:
        """Whether a run goes on."""
        return self.run_until is not None and self.run_until > self.now


@dataclass(frozen=True, slots=True)
class Look:
    """What to do now."""

    wake_at: datetime
    """When to look again."""
    settled: datetime | None = None
    """The newest tick that is dealt with by this; None: nothing is."""
    skipped: int = 0
    """Ticks that came while a run went on."""
    missed: int = 0
    """Ticks that came while nobody was there, without the one that is made up for."""
    fire: Kind | None = None
    """Begin a run."""
    tick: datetime | None = None
    """The tick that it is for."""


def look(schedule: Schedule, seen: Seen) -> Look:
    """What follows from a schedule's row at its moment."""
    wake_at = schedule.next_due(seen.now, seen.seed)
    asked = seen.waiting > 0 and not seen.running
    if seen.settled is None:
        # the first start: nothing that came before it was missed
        newest = schedule.newest_until(seen.now)
        return Look(wake_at, settled=newest, fire="asked" if asked else None)
    skipped = missed = 0
    last: tuple[datetime, datetime] | None = None
    last_was_skipped = False
    for last in schedule.due(seen.settled, seen.now, seen.seed):
        last_was_skipped = seen.run_until is not None and last[1] <= seen.run_until
        if last_was_skipped:
            skipped += 1
        else:
            missed += 1
        if skipped + missed >= MOST_COUNTED:
            last = _newest_due(schedule, seen)
            last_was_skipped = seen.running
            break
    if last is None:
        return Look(wake_at, fire="asked" if asked else None)
    tick, due = last
    if last_was_skipped or seen.now - due > schedule.catch_up:
        return Look(wake_at, tick, skipped, missed, "asked" if asked else None)
    late = missed > 1 or seen.now - due > LATE
    return Look(wake_at, tick, skipped, missed - 1, "late" if late else "tick", tick)


def _newest_due(schedule: Schedule, seen: Seen) -> tuple[datetime, datetime]:
    tick = schedule.newest_until(seen.now)
    due = schedule.due_at(tick, seen.seed)
    if due > seen.now:
        tick = schedule.newest_until(tick - timedelta(seconds=1))
        due = schedule.due_at(tick, seen.seed)
    return tick, due
