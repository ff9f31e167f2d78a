"""One round of a peer that works off the source topic: fed, started, timed, checked, removed.

Timed as `bench.backlog` times ours: from the moment at which the process is ready to the broker's append time
of the last job or outcome; the ends of the topics are asked for meanwhile, the records are read afterwards.
A peer that is warmed works off other events first, and its time begins when the measured ones are committed.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from bench.backlog import Result, Wrong, read_all, stamp_when_appended
from bench.peers.audit import Made, audit, read_job, read_outcome_events
from bench.peers.feeding import feed, feed_at_once, warming_of
from bench.peers.program import Command, Program, variables
from bench.processes import busy_s
from bench.servers import Servers, own_topics
from bench.workload import Workload
from settings import Settings
from streams import topics

LOOK_S = 0.2
PATIENCE_S = 240.0


@dataclass(frozen=True, slots=True)
class Streaming:
    """A peer that reads the topic: how it is started, and what it is given."""

    name: str
    command: Callable[[], Command]
    """Raises bench.peer.Unavailable."""
    warming: int = 0
    """Events that it works off before the measured ones; 0: what it is needs no warming."""
    outcomes: bool = True
    """It writes outcomes as well as jobs."""


@dataclass(frozen=True, slots=True)
class CameOut:
    """All that a peer wrote."""

    jobs: tuple[Made, ...]
    told: frozenset[str]
    """Events that have an outcome."""
    last_ms: int
    """When the last record was appended, ms since the epoch."""


def measure(peer: Streaming, workload: Workload, at: Servers, database_url: str) -> Result:
    """One round. Raises Unavailable, bench.backlog.Wrong, bench.processes.NotReady."""
    came_out, result = measure_and_keep(peer, workload, at, database_url)
    ids = {one.event_id for one in workload.events}
    found = audit(ids, came_out.jobs)
    if not found.faultless or (peer.outcomes and came_out.told != ids):
        raise Wrong(f"{peer.name}: {found}, {len(came_out.told & ids)} have an outcome")
    return result


def measure_and_keep(
    peer: Streaming, workload: Workload, at: Servers, database_url: str
) -> tuple[CameOut, Result]:
    """One round and what came out of it, as it is; raises as `measure`, but not for wrong jobs."""
    command = peer.command()
    with (
        own_topics(at, jobs_paused=True) as settings,
        tempfile.TemporaryDirectory(prefix="rajada-peer-") as folder,
    ):
        topics.ensure_topics(at.bootstrap, settings)
        stamp_when_appended(AdminClient({"bootstrap.servers": at.bootstrap}), outputs_of(peer, settings))
        ahead = warming_of(workload, peer.warming) if peer.warming else None
        feed(settings, ahead or workload)
        program = Program(peer.name, command, variables(settings, peer.name, database_url), Path(folder))
        try:
            started_at = program.wait_ready()
            if ahead is not None:
                _until_written(peer, settings, ahead.windows, program)
                before = program.usage()
                started_at = feed_at_once(settings, workload)
            else:
                before = program.usage()
            machine_before = busy_s()
            _until_written(peer, settings, workload.windows + (ahead.windows if ahead else 0), program)
            came_out = _until_complete(peer, settings, workload, ahead, program)
            after, machine_after = program.usage(), busy_s()
        finally:
            program.stop()
    return came_out, Result(
        name=peer.name,
        events=len(workload.events),
        jobs=len({job.id for job in came_out.jobs}),
        seconds=came_out.last_ms / 1000 - started_at,
        cpu_s=after.cpu_s - before.cpu_s,
        machine_s=machine_after - machine_before,
        peak_mib=after.peak_mib,
        repeated=audit((), came_out.jobs).repeated,
    )


def outputs_of(peer: Streaming, settings: Settings) -> tuple[str, ...]:
    """The topics that it writes to."""
    names = (topics.JOBS, topics.OUTCOMES) if peer.outcomes else (topics.JOBS,)
    return tuple(settings.topic(name) for name in names)


def collect(peer: Streaming, settings: Settings, ignored: frozenset[str] = frozenset()) -> CameOut:
    """Everything that it has written by now and that was committed, but for `ignored` events."""
    jobs: list[Made] = []
    told: set[str] = set()
    last_ms = 0
    for topic in outputs_of(peer, settings):
        for record in read_all(settings.bootstrap(), topic, settings.partitions):
            value = record.value()
            assert isinstance(value, bytes), "a job and an outcome have a value"
            if topic == settings.topic(topics.JOBS):
                made = read_job(value)
                events = made.events
                if not ignored.intersection(events):
                    jobs.append(made)
            else:
                events = read_outcome_events(value)
                told.update(events)
            if not ignored.intersection(events):
                last_ms = max(last_ms, record.timestamp()[1])
    return CameOut(tuple(jobs), frozenset(told - ignored), last_ms)


def _until_complete(
    peer: Streaming, settings: Settings, workload: Workload, ahead: Workload | None, program: Program
) -> CameOut:
    """What came out, read again until no event is missing: the end of a transaction counts as a record, so
    that the ends of the topics alone may say too much."""
    ids = frozenset(one.event_id for one in workload.events)
    ignored = frozenset(one.event_id for one in ahead.events) if ahead else frozenset()
    deadline = time.monotonic() + PATIENCE_S
    while True:
        came_out = collect(peer, settings, ignored)
        in_jobs = {event for job in came_out.jobs for event in job.events}
        if in_jobs >= ids and (not peer.outcomes or came_out.told >= ids):
            return came_out
        program.ensure_alive()
        if time.monotonic() > deadline:
            raise Wrong(
                f"{peer.name}: {len(ids - in_jobs):,} of {len(ids):,} events are in no job:\n{program.tail()}"
            )
        time.sleep(LOOK_S)


def ends_of(peer: Streaming, settings: Settings, admin: AdminClient) -> dict[str, int]:
    """How many records each topic that it writes to has, ends of transactions among them."""
    newest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client's has no types
    latest = {
        TopicPartition(name, number): newest
        for name in outputs_of(peer, settings)
        for number in range(settings.partitions)
    }
    ends: Counter[str] = Counter()
    for partition, future in admin.list_offsets(latest).items():
        ends[partition.topic] += future.result(30).offset
    return dict(ends)


def _until_written(peer: Streaming, settings: Settings, wanted: int, program: Program) -> None:
    admin = AdminClient({"bootstrap.servers": settings.bootstrap()})
    deadline = time.monotonic() + PATIENCE_S
    while True:
        ends = ends_of(peer, settings, admin)
        if all(number >= wanted for number in ends.values()):
            return
        program.ensure_alive()
        if time.monotonic() > deadline:
            raise Wrong(f"{peer.name}: after {PATIENCE_S:.0f} s {ends} of {wanted}:\n{program.tail()}")
        time.sleep(LOOK_S)
