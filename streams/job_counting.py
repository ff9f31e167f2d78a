"""Conservation of jobs: what came in is counted where it went (spec/jobs.md, "Dead letters"). Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final

from schemas.kinds import GROUP_LINK, INBOUND_TURN
from streams.contact_jobs import EVERYBODY
from streams.heads import Head, State
from telemetry.distribution import SLOW, Family

KINDS: Final = (INBOUND_TURN, GROUP_LINK)
PAUSED_TOLD: Final = 10
"""So many paused organizations are told by their ids, the rest by their number."""


@dataclass(slots=True)
class JobTally:
    """What became of records, commands and attempts since the process started."""

    read: int = 0
    """Records of `dispatch.jobs`: each is counted in one of the next seven."""
    taken: int = 0
    returned: int = 0
    """Came back from the delay topics."""
    dropped: int = 0
    """Redelivered, overtaken by a command, or of a job that has ended."""
    elsewhere: int = 0
    """The CRM's own workers run it."""
    postponed: int = 0
    """Written by another version: looked at again later."""
    unreadable: int = 0
    refused_jobs: int = 0
    """Too large, or one too many of its contact."""
    commands: int = 0
    refused: int = 0
    started: int = 0
    done: int = 0
    delayed: int = 0
    failed: int = 0
    dead: int = 0
    held: int = 0
    handed_back: int = 0
    lost: int = 0
    """Attempts whose worker ended without an answer."""
    merged: int = 0
    session_waits: int = 0
    cycles: int = 0
    busy_ms: int = 0
    """Sum of the attempts' durations."""
    to_done: Family = field(default_factory=lambda: Family(SLOW))
    """By kind: seconds from the commit of a job's first event until the job is done."""
    lane_wait: Family = field(default_factory=lambda: Family(SLOW))
    """By kind: seconds from when a job may run until its attempt begins."""

    def begin(self, head: Head, now_ms: int) -> None:
        """An attempt begins."""
        self.started += 1
        came_ms = head.origin.timestamp if head.origin is not None else 0
        self.lane_wait.observe((now_ms - max(head.run_after_ms, came_ms)) / 1000, kind_label(head.kind))

    def hear(self, head: Head, committed_ms: int | None, now_ms: int) -> None:
        """An attempt has ended, and the head is where that led it; `committed_ms`: its job's first event."""
        self.busy_ms += now_ms - head.started_ms
        match head.state:
            case State.DONE:
                self.done += 1
                if committed_ms is not None:
                    self.to_done.observe(max(now_ms - committed_ms, 0) / 1000, kind_label(head.kind))
            case State.DELAYED:
                self.delayed += 1
            case State.FAILED:
                self.failed += 1
            case State.DEAD:
                self.dead += 1
            case State.HELD:
                self.held += 1
            case _:
                self.handed_back += 1

    @property
    def accounted(self) -> int:
        """The sum of the records' places; equal to `read` between two batches."""
        places = self.taken, self.returned, self.dropped, self.elsewhere, self.postponed, self.unreadable
        return sum(places) + self.refused_jobs


def kind_label(kind: str) -> str:
    """A job's kind as a label: whoever writes jobs may invent any number of kinds."""
    return kind if kind in KINDS else "other"


def told(tally: JobTally, running: int, waiting: int, paused: Collection[str] = ()) -> dict[str, int | str]:
    """As flat numbers, for a log line and the counters' file; `paused` are organizations, or EVERYBODY."""
    numbers: dict[str, int | str] = {
        "jobs_read": tally.read,
        "jobs_taken": tally.taken,
        "jobs_returned": tally.returned,
        "jobs_dropped": tally.dropped,
        "jobs_elsewhere": tally.elsewhere,
        "jobs_postponed": tally.postponed,
        "jobs_unreadable": tally.unreadable,
        "jobs_refused": tally.refused_jobs,
        "jobs_running": running,
        "jobs_waiting": waiting,
        "jobs_merged": tally.merged,
        "attempts": tally.started,
        "attempts_done": tally.done,
        "attempts_delayed": tally.delayed,
        "attempts_failed": tally.failed,
        "attempts_dead": tally.dead,
        "attempts_held": tally.held,
        "attempts_lost": tally.lost,
        "attempts_handed_back": tally.handed_back,
        "session_waits": tally.session_waits,
        "commands": tally.commands,
        "commands_refused": tally.refused,
    }
    return numbers | ({"jobs_paused": _names(paused)} if paused else {})


def _names(paused: Collection[str]) -> str:
    if EVERYBODY in paused:
        return "everybody"
    named = sorted(paused)
    more = len(named) - PAUSED_TOLD
    return ", ".join(named[:PAUSED_TOLD]) + (f" and {more} more" if more > 0 else "")
