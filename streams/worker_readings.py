"""The worker's counters as metrics: read when somebody scrapes, counted by those who do the work."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import asdict

from streams.contact_jobs import EVERYBODY
from streams.counting import Counts, Tally
from streams.decider import DatabaseDecider
from streams.group_link_intake import GroupLinkCounts
from streams.job_counting import JobTally
from telemetry import catalogue
from telemetry.distribution import Family
from telemetry.readings import Reading, Source, by_label, spread

COLLECT, GROUP_LINKS, JOBS = "collect", "group_links", "jobs"


def records(stage: str, read: int, fates: Mapping[str, int]) -> Iterator[Reading]:
    """What a stage read and where it went."""
    yield Reading(catalogue.RECORDS_READ, read, (stage,))
    for fate, number in fates.items():
        yield Reading(catalogue.RECORDS, number, (stage, fate))


def windows_source(counts: Counts, tally: Tally, decider: DatabaseDecider) -> Source:
    """Collecting, deciding and closing."""

    def read() -> Iterator[Reading]:
        yield from records(COLLECT, counts.read, counts.places())
        stops = tally.stops.copy()
        yield from by_label(catalogue.WINDOWS_BEGUN, {"opened": tally.opened, "taken_over": tally.recovered})
        ends = {
            "job": tally.jobs,
            "stop": sum(stops.values()),
            "dead": tally.deaths,
            "emptied": tally.emptied,
            "handed_over": tally.handed_over,
        }
        yield from by_label(catalogue.WINDOWS_ENDED, ends)
        yield from by_label(catalogue.WINDOW_STOPS, stops)
        yield Reading(catalogue.WINDOWS_OPEN, max(tally.open, 0))
        yield Reading(catalogue.DECISIONS_FAILED, tally.failures)
        yield Reading(catalogue.MEDIA_WAITS, tally.media_waits)
        yield Reading(catalogue.DATABASE_AWAY, tally.away)
        yield Reading(catalogue.DEAD_LETTERS, counts.dead, (COLLECT,))
        yield Reading(catalogue.DEAD_LETTERS, tally.deaths, ("decide",))
        yield Reading(catalogue.CLOCK_SKEW, decider.skew.ms / 1000)
        yield from spread(catalogue.COMMIT_TO_JOB, tally.to_job)
        yield from spread(catalogue.WINDOW_LATENESS, tally.lateness)
        yield from spread(catalogue.DECIDING, decider.took)

    return read


def jobs_source(
    tally: JobTally,
    took: Family,
    *,
    running: Callable[[], int],
    waiting: Callable[[], int],
    paused: Callable[[], Collection[str]],
) -> Source:
    """The executor."""

    def read() -> Iterator[Reading]:
        yield from records(
            JOBS,
            tally.read,
            {
                "taken": tally.taken,
                "returned": tally.returned,
                "dropped": tally.dropped,
                "elsewhere": tally.elsewhere,
                "postponed": tally.postponed,
                "unreadable": tally.unreadable,
                "refused": tally.refused_jobs,
            },
        )
        yield Reading(catalogue.ATTEMPTS_BEGUN, tally.started)
        ends = {
            "done": tally.done,
            "delayed": tally.delayed,
            "failed": tally.failed,
            "dead": tally.dead,
            "held": tally.held,
            "handed_back": tally.handed_back,
            "lost": tally.lost,
        }
        yield from by_label(catalogue.ATTEMPTS_ENDED, ends)
        yield Reading(catalogue.DEAD_LETTERS, tally.dead + tally.unreadable + tally.refused_jobs, (JOBS,))
        yield Reading(catalogue.JOBS_RUNNING, running())
        yield Reading(catalogue.JOBS_WAITING, waiting())
        yield Reading(catalogue.JOBS_MERGED, tally.merged)
        yield Reading(catalogue.SESSION_WAITS, tally.session_waits)
        commands = {"carried_out": tally.commands - tally.refused, "refused": tally.refused}
        yield from by_label(catalogue.COMMANDS, commands)
        stopped = paused()
        yield Reading(catalogue.ORGANIZATIONS_PAUSED, len(stopped) - (EVERYBODY in stopped))
        yield from spread(catalogue.COMMIT_TO_DONE, tally.to_done)
        yield from spread(catalogue.LANE_WAIT, tally.lane_wait)
        yield from spread(catalogue.HANDLER, took)

    return read


def group_links_source(counts: GroupLinkCounts) -> Source:
    """Enrolments on their way to jobs."""

    def read() -> Iterator[Reading]:
        fates = asdict(counts)
        yield from records(GROUP_LINKS, fates.pop("read"), fates)
        yield Reading(catalogue.DEAD_LETTERS, counts.dead, (GROUP_LINKS,))

    return read


def sweep_source(told: Callable[[], Mapping[str, int | str]], held: Callable[[], bool]) -> Source:
    """The safety net."""

    def read() -> Iterator[Reading]:
        numbers = told()
        yield Reading(catalogue.SWEPT, int(numbers["swept"]))
        ends = {"held": int(numbers["sweeps_held"]), "failed": int(numbers["sweeps_failed"])}
        yield from by_label(catalogue.SWEEPS, ends)
        yield Reading(catalogue.SWEEP_HELD, int(held()))

    return read
