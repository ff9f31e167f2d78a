"""Commit to job row: how fast rows of `event_log` become rows of `job_queue` through publisher, worker and
sink.

All three are ready before the first row is committed. Time counts from before the first commit until a
reader, which looks a few times a second, sees the last job's row.
"""

from __future__ import annotations

import time

import psycopg

from bench.backlog import PATIENCE_S, Result, Wrong
from bench.processes import busy_s, running
from bench.servers import Servers, own_database, own_topics
from bench.workload import commit, plan

LOOK_S = 0.2
NAMES = ("relay", "worker", "sink")


def measure(name: str, at: Servers, *, events: int, contacts: int, per_window: int) -> Result:
    """One round, in a database of its own; CPU and memory are those of relay, worker and sink together.

    Raises Wrong when rows are missing or too many, NotReady when a process does not start.
    """
    with (
        own_database(at.admin_url) as url,
        own_topics(at, jobs_paused=True) as settings,
        running(*NAMES, settings=settings, database_url=url) as processes,
    ):
        for process in processes.values():
            process.wait_ready()
        workload = plan(url, events=events, contacts=contacts, per_window=per_window)
        before = sum(process.usage().cpu_s for process in processes.values())
        machine_before, begun = busy_s(), time.monotonic()
        commit(url, workload)
        jobs = _until_there(url, workload.windows)
        seconds, machine = time.monotonic() - begun, busy_s() - machine_before
        used = [process.usage() for process in processes.values()]
        _check(url, events)
    return Result(
        name=name,
        events=events,
        jobs=jobs,
        seconds=seconds,
        cpu_s=sum(one.cpu_s for one in used) - before,
        machine_s=machine,
        peak_mib=sum(one.peak_mib for one in used),
        repeated=jobs - workload.windows,
    )


def _until_there(url: str, wanted: int) -> int:
    deadline = time.monotonic() + PATIENCE_S
    with psycopg.connect(url, autocommit=True) as connection:
        while True:
            row = connection.execute("SELECT count(*) FROM job_queue").fetchone()
            assert row is not None
            if row[0] >= wanted:
                return int(row[0])
            if time.monotonic() > deadline:
                raise Wrong(f"after {PATIENCE_S:.0f} s only {row[0]} of {wanted} jobs have a row")
            time.sleep(LOOK_S)


def _check(url: str, events: int) -> None:
    """Every event in exactly one job."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*), count(DISTINCT event_id)"
            " FROM job_queue, jsonb_array_elements_text(payload -> 'event_ids') AS of (event_id)"
        ).fetchone()
    if row != (events, events):
        raise Wrong(f"{row} events (in all, different) are in jobs instead of {events}")
