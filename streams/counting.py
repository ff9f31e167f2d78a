"""Conservation: what came in is counted where it went, per stage (spec/jobs.md, Dead letters).

Records: every one that was read is in exactly one of `Counts`' places. Windows: every one that opened, or
was found at recovery, is closed in exactly one way, was handed over, or is open. Counted since the process
started. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from streams.contact import Window
from telemetry.distribution import SLOW, Distribution


@dataclass(slots=True)
class Counts:
    """What became of the records that were read; every one is counted in exactly one of these."""

    opened: int = 0
    joined: int = 0
    duplicate: int = 0
    applied_before: int = 0
    invalid_payload: int = 0
    rekeyed: int = 0
    postponed: int = 0
    """Written by another version: looked at again later."""
    dead: int = 0
    read: int = 0
    """All of them: counted where they come in, not where they go."""

    @property
    def accounted(self) -> int:
        """The sum of the places; equal to `read` between two batches."""
        return sum(self.places().values())

    def places(self) -> dict[str, int]:
        """How many records are in each."""
        return {
            "opened": self.opened,
            "joined": self.joined,
            "duplicate": self.duplicate,
            "applied_before": self.applied_before,
            "invalid_payload": self.invalid_payload,
            "rekeyed": self.rekeyed,
            "postponed": self.postponed,
            "dead": self.dead,
        }


@dataclass(slots=True)
class Tally:
    """What became of the windows, and what the cycles of the flush did."""

    recovered: int = 0
    """Windows that were there when partitions were taken over."""
    opened: int = 0
    jobs: int = 0
    stops: dict[str, int] = field(default_factory=dict)
    """By reason."""
    deaths: int = 0
    emptied: int = 0
    """Stop 0 took every event of the window."""
    handed_over: int = 0
    """Windows that were open when partitions were given up."""
    cycles: int = 0
    media_waits: int = 0
    failures: int = 0
    away: int = 0
    """Cycles that found no database."""
    to_job: Distribution = field(default_factory=lambda: Distribution(SLOW))
    """Seconds from the commit of a window's first event until its job is durable."""
    lateness: Distribution = field(default_factory=Distribution)
    """Seconds from a window's deadline until its decision begins."""
    on_job: Callable[[str, Window, int], None] = lambda job_id, window, durable_ms: None
    """Told of every window that became a job, and when that was durable (ms)."""

    @property
    def closed(self) -> int:
        """Windows that ended here: sent, durable, dropped."""
        return self.jobs + sum(self.stops.values()) + self.deaths + self.emptied

    @property
    def open(self) -> int:
        """Windows that must be in the contacts now."""
        return self.recovered + self.opened - self.closed - self.handed_over

    def begin(self, windows: Sequence[Window], now_ms: int) -> None:
        """Their decision begins: how late is it, of those that met their deadline and were never decided?"""
        for window in windows:
            if window.state == "open" and window.deadline_ms <= now_ms:
                self.lateness.observe((now_ms - window.deadline_ms) / 1000)

    def close(self, window: Window, durable_ms: int) -> None:
        """A window was sent, what it sent became durable then, and it is dropped."""
        frozen = window.frozen
        assert frozen is not None, "only a frozen window is closed"
        if frozen.status == "dead":
            self.deaths += 1
        elif not window.events:
            self.emptied += 1
        elif frozen.job_id is not None:
            self.jobs += 1
            self.to_job.observe((durable_ms - window.events[0].time_ms) / 1000)
            self.on_job(frozen.job_id, window, durable_ms)
        else:
            self.stops[frozen.outcome] = self.stops.get(frozen.outcome, 0) + 1

    def give_up(self) -> None:
        """The partitions go, and their open windows with them."""
        self.handed_over += self.open

    def own(self, found: int) -> None:
        """Partitions were taken over that hold so many windows."""
        self.give_up()
        self.recovered += found


def told(counts: Counts, tally: Tally) -> dict[str, int]:
    """Both as flat numbers, for a log line and the counters' file; stops as `stop:<reason>`."""
    places = counts.places()
    letters = places.pop("dead")  # `dead` are windows here
    numbers = {
        "read": counts.read,
        **places,
        "dead_letters": letters,
        "recovered": tally.recovered,
        "open": tally.open,
        "jobs": tally.jobs,
        "dead": tally.deaths,
        "emptied": tally.emptied,
        "handed_over": tally.handed_over,
        "decisions_failed": tally.failures,
        "media_waits": tally.media_waits,
        "database_away": tally.away,
    }
    return numbers | {f"stop:{reason}": count for reason, count in sorted(tally.stops.items())}
