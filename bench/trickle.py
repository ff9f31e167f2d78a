"""Insert to job row: how much later than its window a message's job stands in Postgres, and how late windows
are decided.

Relay, worker and sink run as real processes. A message counts from before its INSERT is sent until a reader
sees the job's row, less the window's length: so everything is in it, also the reader's own interval. The
lateness of a window is the time of its decision less its deadline, as the outcome's record has both.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import psycopg

from bench.backlog import Wrong, read_all
from bench.processes import running
from bench.servers import Servers, own_database, own_topics
from ops.clinic import Clinic, Connection, Message, Patient
from schemas.codec import decode_outcome
from settings import Settings
from streams import topics

WINDOW_MS = 1_000
LONE_EVERY_S = 0.7
"""Longer than a fetch waits, so that each message finds the system idle."""
READ_EVERY_S = 0.003
PATIENCE_S = 30.0
NAMES = ("relay", "worker", "sink")
_SEEN = """
SELECT source_event_id::text FROM job_queue WHERE organization_id = %s AND source_event_id = ANY (%s)
"""


@dataclass(frozen=True, slots=True)
class Latency:
    """A distribution in ms."""

    count: int
    least: float
    p50: float
    p99: float
    most: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Latency:
        """The distribution of values (at least one), nearest rank."""
        ranked = sorted(values)

        def at(share: float) -> float:
            return ranked[min(len(ranked) - 1, int(share * len(ranked)))]

        return cls(len(ranked), ranked[0], at(0.5), at(0.99), ranked[-1])


@dataclass(frozen=True, slots=True)
class Trickle:
    """What was measured."""

    lone: Latency
    """One message at a time on an idle system, ms beyond the window."""
    steady: Latency
    """Messages at a steady rate, ms beyond the window."""
    rate: float
    lateness: Latency
    """Decision less deadline, ms, over all windows."""
    cpu_s: dict[str, float]
    """CPU seconds of each process during both."""
    seconds: float


def measure(at: Servers, *, lone: int, steady: int, rate: float) -> Trickle:
    """Write `lone` messages apart and `steady` ones at `rate` a second, each of a contact of its own."""
    with (
        own_database(at.admin_url) as url,
        own_topics(at, jobs_paused=True) as settings,
        running(*NAMES, settings=settings, database_url=url) as processes,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        for process in processes.values():
            process.wait_ready()
        clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
        patients = clinic.register(connection, [f"p{number}" for number in range(lone + steady + 3)])
        _written(connection, clinic, patients[-3:], LONE_EVERY_S)  # the first ones open connections
        before = {name: process.usage().cpu_s for name, process in processes.items()}
        begun = time.monotonic()
        alone = _written(connection, clinic, patients[:lone], LONE_EVERY_S)
        together = _written(connection, clinic, patients[lone:-3], 1 / rate)
        seconds = time.monotonic() - begun
        cpu_s = {name: process.usage().cpu_s - before[name] for name, process in processes.items()}
        late = lateness(at.bootstrap, settings)
    return Trickle(Latency.of(alone), Latency.of(together), rate, Latency.of(late), cpu_s, seconds)


def _written(
    connection: Connection, clinic: Clinic, patients: Sequence[Patient], every_s: float
) -> list[float]:
    """Write a message of each patient in turn; ms beyond the window until its job's row was seen."""
    waiting: dict[str, float] = {}
    beyond: list[float] = []
    due = time.monotonic()
    left = list(patients)
    while left or waiting:
        now = time.monotonic()
        if left and now >= due:
            (written,) = clinic.write(connection, [Message(left.pop())])
            waiting[written.event_id] = now
            due += every_s
        seen = connection.execute(_SEEN, [clinic.organization_id, list(waiting)]).fetchall()
        now = time.monotonic()
        for (event_id,) in seen:
            beyond.append((now - waiting.pop(str(event_id))) * 1000 - WINDOW_MS)
        if waiting and now - min(waiting.values()) > PATIENCE_S:
            raise Wrong(f"{len(waiting)} messages have no job after {PATIENCE_S:.0f} s")
        time.sleep(READ_EVERY_S)
    return beyond


def lateness(bootstrap: str, settings: Settings, since_ms: int = 0) -> list[float]:
    """Decision less deadline in ms, of every window decided since then (ms since the epoch)."""
    late = []
    for record in read_all(bootstrap, settings.topic(topics.OUTCOMES), settings.partitions):
        value = record.value()
        assert isinstance(value, bytes), "records of ours have a value"
        outcome = decode_outcome(value)
        if outcome.outcome is None or outcome.at_ms < since_ms:
            continue  # what became of a job later
        facts = msgspec.json.decode(outcome.facts or "{}", type=dict[str, object])
        deadline_ms = facts["deadline_ms"]
        assert isinstance(deadline_ms, int), "an outcome of a window tells its deadline"
        late.append(float(outcome.at_ms - deadline_ms))
    return late
