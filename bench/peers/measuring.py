"""One round of a peer that works off the source topic: fed, started, timed, checked, removed.

Timed as `bench.backlog` times ours: from the moment at which the process is ready to the broker's append time
of the last job or outcome; the ends of the topics are asked for meanwhile, the records are read afterwards.
A peer that is warmed works off other events first, and its time begins when the measured ones are committed.
What it used is read when its last record has come, before the records are read back, which is our work.
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

from bench.backlog import Result, Wrong, patience_s, read_all, stamp_when_appended
from bench.meter import Meter, Reading
from bench.peers.audit import Made, audit, read_job, read_outcome_events
from bench.peers.feeding import feed, held_back, warming_of
from bench.peers.program import Command, Program, variables
from bench.servers import Servers, own_topics
from bench.workload import Workload
from settings import Settings
from streams import topics

LOOK_S = 0.2
STILL_S = 1.0
"""Nothing new for so long: what came is all; ten times the interval of a transaction's commits."""


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
            with Meter(at.admin_url, [program]) as meter:
                watch = Watch(peer, settings, program, meter)
                started_at, before = program.wait_ready(), meter.read()
                if ahead is not None:
                    watch.until_written(ahead, ahead.windows)
                    waiting = held_back(settings, workload)
                    before = meter.read()
                    waiting.release()
                    started_at = time.time()
                came_out, ended = watch.until_complete(workload, ahead)
        finally:
            program.stop()
    return came_out, Result(
        name=peer.name,
        events=len(workload.events),
        jobs=len({job.id for job in came_out.jobs}),
        seconds=came_out.last_ms / 1000 - started_at,
        used=ended.since(before),
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


@dataclass(frozen=True, slots=True)
class Watch:
    """Looks at what a peer writes, and at what it uses until then."""

    peer: Streaming
    settings: Settings
    program: Program
    meter: Meter

    def until_complete(self, workload: Workload, ahead: Workload | None) -> tuple[CameOut, Reading]:
        """What came out of it, but for `ahead`, and what the meter stood at when the last of it had come.

        Read again until no event is missing: the end of a transaction counts as a record, so that the ends of
        the topics alone may say too much. Raises Wrong, NotReady.
        """
        ids = frozenset(one.event_id for one in workload.events)
        ignored = frozenset(one.event_id for one in ahead.events) if ahead else frozenset()
        wanted = workload.windows + (ahead.windows if ahead else 0)
        deadline = time.monotonic() + patience_s(len(ids))
        while True:
            ended = self.until_written(workload, wanted)
            came_out = collect(self.peer, self.settings, ignored)
            in_jobs = {event for job in came_out.jobs for event in job.events}
            if in_jobs >= ids and (not self.peer.outcomes or came_out.told >= ids):
                return came_out, ended
            if time.monotonic() > deadline:
                missing = f"{len(ids - in_jobs):,} of {len(ids):,} events are in no job"
                raise Wrong(f"{self.peer.name}: {missing}:\n{self.program.tail()}")

    def until_written(self, workload: Workload, wanted: int) -> Reading:
        """Wait until each topic has so many records and no more come; the meter as the last one came."""
        admin = AdminClient({"bootstrap.servers": self.settings.bootstrap()})
        known: dict[str, int] = {}
        since, deadline = 0.0, time.monotonic() + patience_s(len(workload.events))
        reading = self.meter.read()
        while True:
            self.program.ensure_alive()
            ends = ends_of(self.peer, self.settings, admin)
            if ends != known:
                known, since, reading = ends, time.monotonic(), self.meter.read()
            elif min(ends.values()) >= wanted and time.monotonic() - since > STILL_S:
                return reading
            if time.monotonic() > deadline:
                raise Wrong(f"{self.peer.name}: only {ends} of {wanted} came:\n{self.program.tail()}")
            time.sleep(LOOK_S)
