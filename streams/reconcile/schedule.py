"""When a schedule ticks: a cron expression in a time zone, and when each tick is due (pure).

Ticks are instants in UTC. On days when clocks change, a schedule of every few minutes ticks as evenly as
ever; one of a certain hour ticks once, also when that hour doesn't exist or comes twice.
Rule: spec/reconciler.md, the schedule.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Final
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from settings import RajadaError

INSTANT: Final = timedelta(microseconds=1)
JITTER_SHARE: Final = 0.9
"""Of the time until the next tick, at most: a tick is always due before the next one."""


class WrongSchedule(RajadaError):
    """A cron expression or a time zone that can't be used; the message names the setting."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """A named schedule. Make it with `parse`."""

    name: str
    cron: str
    """Five fields, or six that begin with seconds."""
    zone: ZoneInfo
    catch_up: timedelta
    """A tick that is late by more than this is missed, not made up for."""
    jitter: timedelta
    """By how much at most a tick is due later than it ticks."""

    @classmethod
    def parse(cls, name: str, cron: str, zone: str, *, catch_up_s: float, jitter_s: float) -> Schedule:
        """The schedule of some settings. Raises WrongSchedule."""
        try:
            place = ZoneInfo(zone)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            raise WrongSchedule(
                f"RAJADA_RECONCILE_TIME_ZONE: there is no time zone {zone!r}. Name one, like "
                "America/Sao_Paulo."
            ) from None
        made = cls(name, cron, place, timedelta(seconds=catch_up_s), timedelta(seconds=jitter_s))
        try:
            made.next_after(datetime(2000, 1, 1, tzinfo=UTC))
        except (CronSimError, StopIteration, RuntimeError):
            raise WrongSchedule(
                f"RAJADA_RECONCILE_CRON: {cron!r} is no cron expression that ever comes true. Write one like "
                "`*/5 * * * *`."
            ) from None
        return made

    def ticks(self, after: datetime) -> Iterator[datetime]:
        """The ticks later than an instant, in their order, without end."""
        for tick in CronSim(self.cron, after.astimezone(self.zone)):
            yield tick.astimezone(UTC)

    def next_after(self, instant: datetime) -> datetime:
        """The first tick later than an instant."""
        return next(self.ticks(instant))

    def newest_until(self, instant: datetime) -> datetime:
        """The last tick that is not later than an instant."""
        # whole seconds only: one that has just begun must not be stepped over
        until = instant.replace(microsecond=0) + INSTANT
        newest = next(CronSim(self.cron, until.astimezone(self.zone), reverse=True))
        return newest.astimezone(UTC)

    def due(self, after: datetime, until: datetime, seed: UUID) -> Iterator[tuple[datetime, datetime]]:
        """The ticks later than `after` that are due by `until`: pairs of (tick, when it was due)."""
        for tick, following in pairwise(self.ticks(after)):
            due = tick + self._delay(tick, following, seed)
            if due > until:
                return
            yield tick, due

    def due_at(self, tick: datetime, seed: UUID) -> datetime:
        """When a tick is due: a while after it, the same for whoever asks."""
        return tick + self._delay(tick, self.next_after(tick), seed)

    def next_due(self, now: datetime, seed: UUID) -> datetime:
        """When the next tick is due that isn't yet."""
        newest = self.due_at(self.newest_until(now), seed)
        return newest if newest > now else self.due_at(self.next_after(now), seed)

    def _delay(self, tick: datetime, following: datetime, seed: UUID) -> timedelta:
        longest = min(self.jitter, (following - tick) * JITTER_SHARE)
        said = f"{seed}:{tick.timestamp():.0f}".encode()
        number = int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "big")
        return longest * (number / 2**64)
