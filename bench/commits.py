"""Commit to job row: how fast rows of `event_log` become rows of `job_queue` through publisher, worker and
sink.

The rows lie committed in the log, as they do for the queues beside ours (`bench.peers.draining`). Worker and
sink stand by; time counts from the moment at which the relay, which reads the log, says that it is ready,
until a reader, who looks a few times a second, sees no event that is still open: the sink closes an event in
the transaction in which it writes its job's row.

The log's times lie in the past, so whenever the worker has caught up with the relay it ends windows by its
clock. The rest of such a burst is another window, and the first, whose newer messages Postgres has already,
is superseded: its events are done and in no job, as they would be live.
"""

from __future__ import annotations

import time

import psycopg

from bench.backlog import Result, Wrong, patience_s
from bench.meter import Meter
from bench.processes import running
from bench.relay import begin_here
from bench.servers import Servers, own_database, own_topics
from bench.workload import Workload, make
from settings import Settings
from streams import topics

LOOK_S = 0.2
_OPEN = "SELECT EXISTS (SELECT FROM event_log WHERE status IN ('pending', 'processing'))"
_TOLD = """
SELECT (SELECT count(*) FROM job_queue),
    (SELECT count(*) FROM event_log WHERE outcome = 'superseded_by_newer_inbound')
"""


def measure(name: str, at: Servers, *, events: int, contacts: int, per_window: int) -> Result:
    """One round, in a database of its own; CPU and memory are those of relay, worker and sink together.

    Raises Wrong when rows are missing or too many, NotReady when a process does not start.
    """
    with own_database(at.admin_url) as url, own_topics(at, jobs_paused=True) as settings:
        topics.ensure_topics(at.bootstrap, settings)
        begin_here(url, settings)
        workload = make(url, events=events, contacts=contacts, per_window=per_window)
        return _worked_off(name, at, url, settings, workload)


def _worked_off(name: str, at: Servers, url: str, settings: Settings, workload: Workload) -> Result:
    with running("worker", "sink", settings=settings, database_url=url) as standing_by:
        for process in standing_by.values():
            process.wait_ready()
        with (
            running("relay", settings=settings, database_url=url) as reading,
            Meter(at.admin_url, [*standing_by.values(), *reading.values()]) as meter,
        ):
            started_at, before = reading["relay"].wait_ready(), meter.read()
            _until_done(url, len(workload.events))
            ended_at, used = time.time(), meter.read().since(before)
    jobs = _checked(url, workload)
    return Result(
        name=name,
        events=len(workload.events),
        jobs=jobs,
        seconds=ended_at - started_at,
        used=used,
    )


def _until_done(url: str, events: int) -> None:
    """Wait until no event is open. Raises Wrong after a while."""
    patience = patience_s(events)
    deadline = time.monotonic() + patience
    with psycopg.connect(url, autocommit=True) as connection:
        while connection.execute(_OPEN).fetchone() == (True,):
            if time.monotonic() > deadline:
                raise Wrong(f"after {patience:.0f} s some of {events} events are still open")
            time.sleep(LOOK_S)


def _checked(url: str, workload: Workload) -> int:
    """How many jobs there are. Raises Wrong unless every event is in one, or superseded, and none in two."""
    events = len(workload.events)
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(_TOLD).fetchone()
    assert row is not None
    (jobs, superseded), (in_jobs, different) = row, events_in_jobs(url)
    if jobs < workload.windows or not different == in_jobs == events - superseded:
        raise Wrong(
            f"of {events} events {different} are in {jobs} jobs ({in_jobs} with doubles), {superseded} "
            f"are superseded; there are {workload.windows} windows"
        )
    return int(jobs)


def events_in_jobs(url: str) -> tuple[int, int]:
    """How many events the jobs in Postgres have, and how many different ones: as many, or one is doubled."""
    with psycopg.connect(url, autocommit=True) as connection:
        row = connection.execute(
            "SELECT count(*), count(DISTINCT event_id)"
            " FROM job_queue, jsonb_array_elements_text(payload -> 'event_ids') AS of (event_id)"
        ).fetchone()
    assert row is not None
    return int(row[0]), int(row[1])
