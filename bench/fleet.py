"""Several workers of one application: how they share a backlog, and the pause when they restart in turn."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psycopg
from confluent_kafka import ConsumerGroupState
from confluent_kafka.admin import AdminClient

from bench import paced
from bench.backlog import Result, Wrong, check, stamp_when_appended, until_written
from bench.meter import Meter
from bench.paced import Beyond, Stream
from bench.processes import Process, own_home, running
from bench.servers import Servers, own_database, own_topics
from bench.workload import Workload, preload
from ops.clinic import Clinic
from schemas.topic_names import APP_ID
from settings import Settings
from streams import topics

SETTLED_S = 60.0
SESSION_S = 30.0
"""Long enough that workers that stand still while a backlog is written keep their partitions."""
WINDOW_MS = 1_000
PAUSE_BEYOND_SESSION_S = 3.0


def longest_pause_s() -> float:
    """The bar of a pause (a kill, a restart): what the group takes to miss a member, and three seconds."""
    return Settings().session_timeout_s + PAUSE_BEYOND_SESSION_S


def measure(workers: int, workload: Workload, at: Servers, database_url: str) -> Result:
    """One round of so many workers over the backlog, which is written while they stand still.

    Time counts from their going on; CPU and memory are those of all of them. Raises Wrong or NotReady.
    """
    with own_topics(at, jobs_paused=True) as settings, ExitStack() as stack:
        topics.ensure_topics(at.bootstrap, settings)
        admin = AdminClient({"bootstrap.servers": at.bootstrap})
        outputs = (settings.topic(topics.JOBS), settings.topic(topics.OUTCOMES))
        stamp_when_appended(admin, outputs)
        more = {"RAJADA_SESSION_TIMEOUT_S": str(SESSION_S)}
        fleet = [stack.enter_context(_worker(settings, database_url, more)) for _ in range(workers)]
        _until_settled(admin, settings, fleet)
        with Meter(at.admin_url, fleet) as meter:
            with _standing_still(fleet):
                preload(workload, at.bootstrap, settings)
                before = meter.read()
            started_at = time.time()
            until_written(admin, outputs, workload, settings.partitions, fleet)
            used = meter.read().since(before)
        ended_ms, jobs, repeated = check(workload, at.bootstrap, settings)
    return Result(
        name=f"{workers} workers",
        events=len(workload.events),
        jobs=jobs,
        seconds=ended_ms / 1000 - started_at,
        used=used,
        repeated=repeated,
    )


@contextmanager
def _worker(
    settings: Settings, url: str, more: dict[str, str], home: Path | None = None
) -> Iterator[Process]:
    with running("worker", settings=settings, database_url=url, more=more, home=home) as processes:
        yield processes["worker"]


def _until_settled(admin: AdminClient, settings: Settings, fleet: list[Process]) -> None:
    """Until every worker is a member that has partitions."""
    for one in fleet:
        one.wait_ready()
    group, deadline = settings.topic(APP_ID), time.monotonic() + SETTLED_S
    while time.monotonic() < deadline:
        told = admin.describe_consumer_groups([group])[group].result(10)
        owning = [one for one in told.members if one.assignment and one.assignment.topic_partitions]
        if told.state == ConsumerGroupState.STABLE and len(owning) == len(fleet):
            return
        time.sleep(0.2)
    raise Wrong(f"{len(fleet)} workers have not shared the partitions within {SETTLED_S:.0f} s")


@contextmanager
def _standing_still(fleet: list[Process]) -> Iterator[None]:
    for one in fleet:
        os.kill(one.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for one in fleet:
            os.kill(one.pid, signal.SIGCONT)


def rolling_restart(at: Servers, stream: Stream, *, standbys: int, named: bool) -> Beyond:
    """Two workers are stopped and started again, one after the other, while messages come.

    `standbys`: replicas of a table; `named`: workers with a name that outlives their process. Raises Wrong
    when a message has no job, NotReady when a worker does not start.
    """
    failed: list[BaseException] = []
    with (
        own_database(at.admin_url) as url,
        own_topics(at, jobs_paused=True) as settings,
        running("relay", "sink", settings=settings, database_url=url) as others,
        psycopg.connect(url, autocommit=True) as connection,
        ExitStack() as stack,
    ):
        admin = AdminClient({"bootstrap.servers": at.bootstrap})
        homes = [stack.enter_context(own_home()) for _ in range(2)]

        def started(number: int) -> Process:
            """A worker, the first or the second; a restarted one finds its disk as it left it."""
            more = {"RAJADA_STANDBY_REPLICAS": str(standbys)}
            more |= {"CONSUMER_GROUP_INSTANCE_ID": f"worker-{number}"} if named else {}
            return stack.enter_context(_worker(settings, url, more, homes[number]))

        fleet = [started(number) for number in range(2)]
        for process in others.values():
            process.wait_ready()
        _until_settled(admin, settings, fleet)
        clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
        patients = clinic.register(connection, [f"p{number}" for number in range(stream.windows)])

        def restart() -> None:
            """Each in turn, as a supervisor does."""
            try:
                for number in range(2):
                    time.sleep(stream.seconds / 8)
                    fleet[number].stop()
                    fleet[number] = started(number)
                    _until_settled(admin, settings, fleet)
            except BaseException as error:  # of a thread: told by who waits for it
                failed.append(error)

        restarter = threading.Thread(target=restart)
        restarter.start()
        try:
            beyond = paced.measure(url, clinic, patients, stream, WINDOW_MS)
        finally:
            restarter.join()
    if failed:
        raise failed[0]
    return beyond
