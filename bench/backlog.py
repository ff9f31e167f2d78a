"""Topic to jobs: how fast a backlog is worked off by one process, and whether it was right.

From the moment at which the process says that it owns its partitions (start-up, joining and recovery are
not counted) to the broker's append time of the last job or outcome. Nobody reads along meanwhile: the ends
of the topics are asked for a few times a second, the records are read afterwards.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from uuid import uuid4

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    OffsetSpec,
    ResourceType,
)

from bench.meter import Meter, Reading
from bench.processes import Process, running
from bench.servers import Servers, own_topics
from bench.workload import Workload, preload
from schemas.codec import decode_job, decode_outcome
from settings import Settings
from streams import topics

LOOK_S = 0.2
PATIENCE_S = 300.0
SLOWEST_PER_S = 200.0
"""Events a second below which a round is given up, once the patience for its beginning is over."""


class Wrong(RuntimeError):
    """The records that came out are not what the workload implies; the message says how."""


@dataclass(frozen=True, slots=True)
class Result:
    """One process' run over the backlog."""

    name: str
    events: int
    jobs: int
    seconds: float
    used: Reading
    """While it worked, start-up not counted."""
    repeated: int = 0
    """Job records beyond one a job (same id): at-least-once, no effect doubled."""

    @property
    def rate(self) -> float:
        """Events a second."""
        return self.events / self.seconds

    @property
    def busy(self) -> float:
        """Cores that the whole machine had busy: near their number, the rate says little."""
        return self.used.machine_s / self.seconds

    @property
    def cpu_us(self) -> float:
        """CPU microseconds of the processes, an event."""
        return self.used.cpu_s / self.events * 1e6

    @property
    def machine_us(self) -> float:
        """CPU microseconds of the whole machine, an event: what the servers did for it is in here."""
        return self.used.machine_s / self.events * 1e6

    @property
    def wal_bytes(self) -> float:
        """Bytes of write-ahead log, an event."""
        return self.used.wal_bytes / self.events


def patience_s(events: int) -> float:
    """How long so many events are waited for, seconds."""
    return PATIENCE_S + events / SLOWEST_PER_S


def measure(
    name: str,
    workload: Workload,
    at: Servers,
    database_url: str,
    wrap: tuple[str, ...] = (),
    prepare: Callable[[Settings], None] | None = None,
) -> Result:
    """Preload fresh topics, let the process `name` work them off, check what came out.

    `prepare` is called before the process starts, when the topics are there. Raises Wrong, or
    bench.processes.NotReady.
    """
    with own_topics(at, jobs_paused=True) as settings:
        topics.ensure_topics(at.bootstrap, settings)
        admin = AdminClient({"bootstrap.servers": at.bootstrap})
        outputs = (settings.topic(topics.JOBS), settings.topic(topics.OUTCOMES))
        stamp_when_appended(admin, outputs)
        preload(workload, at.bootstrap, settings)
        if prepare is not None:
            prepare(settings)
        with (
            running(name, settings=settings, database_url=database_url, wrap=wrap) as processes,
            Meter(at.admin_url, processes.values()) as meter,
        ):
            started_at, before = processes[name].wait_ready(), meter.read()
            until_written(admin, outputs, workload, settings.partitions, [*processes.values()])
            used = meter.read().since(before)
        ended_ms, jobs, repeated = check(workload, at.bootstrap, settings)
    return Result(
        name=name,
        events=len(workload.events),
        jobs=jobs,
        seconds=ended_ms / 1000 - started_at,
        used=used,
        repeated=repeated,
    )


def stamp_when_appended(admin: AdminClient, names: tuple[str, ...]) -> None:
    """Let the broker stamp the records, so that the last one's time is when it was there."""
    change = ConfigEntry(
        "message.timestamp.type", "LogAppendTime", incremental_operation=AlterConfigOpType.SET
    )
    resources = [ConfigResource(ResourceType.TOPIC, name, incremental_configs=[change]) for name in names]
    for future in admin.incremental_alter_configs(resources).values():
        future.result(10)


def until_written(
    admin: AdminClient,
    names: tuple[str, ...],
    workload: Workload,
    partitions: int,
    processes: Sequence[Process],
) -> None:
    """Wait until each topic has a record a window. Raises Wrong after a while, NotReady if a process ends."""
    wanted, patience = workload.windows, patience_s(len(workload.events))
    newest: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client's has no types
    latest = {TopicPartition(name, number): newest for name in names for number in range(partitions)}
    deadline = time.monotonic() + patience
    while True:
        ends: Counter[str] = Counter()
        for partition, future in admin.list_offsets(latest).items():
            ends[partition.topic] += future.result(10).offset
        if all(ends[name] >= wanted for name in names):
            return
        for process in processes:
            process.ensure_alive()
        if time.monotonic() > deadline:
            raise Wrong(f"after {patience:.0f} s only {dict(ends)} of {wanted}:\n{processes[0].tail()}")
        time.sleep(LOOK_S)


def check(workload: Workload, bootstrap: str, settings: Settings) -> tuple[int, int, int]:
    """Every event in exactly one job, and told as such; returns last append (ms), jobs, repeated records."""
    in_job: dict[str, str] = {}
    jobs: dict[str, bytes] = {}
    records = repeated = last_ms = 0
    for record in read_all(bootstrap, settings.topic(topics.JOBS), settings.partitions):
        records += 1
        last_ms = max(last_ms, record.timestamp()[1])
        value = _value(record)
        job = decode_job(value)
        if jobs.setdefault(job.id, value) != value:
            raise Wrong(f"job {job.id} was sent twice with different content")
        for event in job.events:
            if in_job.setdefault(event.event_id, job.id) != job.id:
                raise Wrong(f"event {event.event_id} is in two jobs")
    repeated = records - len(jobs)
    told: set[str] = set()
    for record in read_all(bootstrap, settings.topic(topics.OUTCOMES), settings.partitions):
        last_ms = max(last_ms, record.timestamp()[1])
        outcome = decode_outcome(_value(record))
        if (outcome.status, outcome.outcome) != ("done", "job"):
            raise Wrong(f"an outcome is {outcome.status} {outcome.outcome}, not done job")
        told |= {one.event_id for one in outcome.events}
    expected = {one.event_id for one in workload.events}
    if in_job.keys() != expected or told != expected:
        raise Wrong(
            f"of {len(expected)} events {len(in_job.keys() & expected)} are in a job and "
            f"{len(told & expected)} have an outcome; {len(in_job.keys() - expected)} are unknown"
        )
    return last_ms, len(jobs), repeated


def _value(record: Record) -> bytes:
    value = record.value()
    assert isinstance(value, bytes), "records of ours have a value"
    return value


def read_all(bootstrap: str, topic: str, partitions: int) -> Iterator[Record]:
    """Every record that is in a topic now."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": str(uuid4()), "enable.partition.eof": True}
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    ended: set[int | None] = set()  # the end is told again whenever more was written meanwhile
    try:
        while len(ended) < partitions:
            for record in consumer.consume(1_000, 1.0):
                if record.error() is None:
                    yield record
                else:
                    ended.add(record.partition())
    finally:
        consumer.close()
