"""Part `latency`: commit to job beyond the window and lateness of windows, with relay and with Debezium."""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import psycopg

from bench import debezium, paced
from bench.latency import Latency, lateness
from bench.meter import Meter, Metered, Reading
from bench.paced import Beyond, Stream
from bench.part import Run
from bench.processes import Started, running
from bench.results import MACHINE, Bar, Line, Table
from bench.servers import own_database, own_topics
from ops.clinic import Clinic
from settings import Settings

WINDOW_MS = 1_000
BEYOND_MS = {"relay": 150.0, "debezium": 250.0}
"""The bars of the 99th percentile."""
LATENESS_MS, GOAL_LATENESS_MS = 100.0, 35.0
LONE_PER_S, LONE_MS = 1, 300.0
"""At a message a second each finds the system idle."""
POLL_S = 20.0
STREAMS = (Stream(1, 30), Stream(100, 10), Stream(1_000, 10, 10), Stream(5_000, 10, 10))
QUICK = (Stream(100, 5),)
WARM_UP = Stream(20, 3)


@dataclass(slots=True)
class Rounds:
    """What was measured of one stream."""

    stream: Stream
    beyond: list[Latency] = field(default_factory=list)
    late: list[Latency] = field(default_factory=list)
    used: list[Reading] = field(default_factory=list)
    paced: list[float] = field(default_factory=list)


def run(run: Run) -> None:
    """Both publishers, every rate."""
    streams = [one for one in (QUICK if run.quick else STREAMS) if one.rate <= run.size("rate", 1_000_000)]
    lines: list[Line] = []
    for publisher in ("relay",) if run.quick else ("relay", "debezium"):
        if run.wants(publisher):
            run.piece(publisher, lambda name=publisher: _publisher(run, name, streams, lines))  # type: ignore[misc]
    title = "Commit to job row beyond the window"
    note = (
        f"The 99th percentile of each round. A drain that polls every {POLL_S:.0f} s would stand at "
        f"{POLL_S * 500:,.0f} ms for the median and {POLL_S * 990:,.0f} ms for the 99th percentile."
    )
    table = Table(
        title=title,
        unit="p99 ms",
        lines=tuple(lines),
        better="less",
        chart="lines",
        x_title="events/s",
        note=note,
    )
    run.found.tables.append(table)


def _publisher(run: Run, publisher: str, streams: list[Stream], lines: list[Line]) -> None:
    rounds = _measured(run, publisher, streams)
    lines += [_line(publisher, one) for one in rounds]
    run.found.bars += _bars(publisher, rounds)


@contextmanager
def _pipeline(run: Run, publisher: str, settings: Settings, url: str) -> Iterator[Sequence[Metered]]:
    """Publisher, worker and sink, ready."""
    if publisher == "relay":
        with running("relay", "worker", "sink", settings=settings, database_url=url) as processes:
            for process in processes.values():
                process.wait_ready()
            yield [*processes.values()]
        return
    with (
        debezium.registered(run.at, settings, url) as (_, _, pid),
        running("worker", "sink", settings=settings, database_url=url) as processes,
    ):
        for process in processes.values():
            process.wait_ready()
        yield [Started(pid), *processes.values()]


def _measured(run: Run, publisher: str, streams: list[Stream]) -> list[Rounds]:
    at = run.at
    found = [Rounds(stream) for stream in streams]
    with (
        own_database(at.admin_url) as url,
        own_topics(at, jobs_paused=True) as settings,
        _pipeline(run, publisher, settings, url) as processes,
        Meter(at.admin_url, processes) as meter,
        psycopg.connect(url, autocommit=True) as connection,
    ):
        clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
        _streamed(url, connection, clinic, WARM_UP)
        for number in range(run.rounds):
            for one in found:
                since_ms, before = time.time_ns() // 1_000_000, meter.read()
                beyond = _streamed(url, connection, clinic, one.stream)
                one.used.append(meter.read().since(before))
                one.beyond.append(Latency.of(beyond.ms))
                one.late.append(Latency.of(lateness(at.bootstrap, settings, since_ms)))
                one.paced.append(beyond.paced)
                told = one.beyond[-1]
                run.say(
                    f"round {number + 1} {publisher:9} {one.stream.rate:6,.0f}/s: p50 {told.p50:.0f} ms, "
                    f"p99 {told.p99:.0f} ms, most {told.most:.0f} ms; late p99 {one.late[-1].p99:.0f} ms"
                )
    return found


def _streamed(
    url: str, connection: psycopg.Connection[tuple[object, ...]], clinic: Clinic, stream: Stream
) -> Beyond:
    patients = clinic.register(connection, [f"p{number}" for number in range(stream.windows)])
    connection.execute("ANALYZE contacts, conversations")
    return paced.measure(url, clinic, patients, stream, WINDOW_MS)


def _line(publisher: str, of: Rounds) -> Line:
    slow, messages = min(of.paced) < 0.95 * of.stream.rate, of.stream.messages
    return Line(
        name=f"{publisher}, {of.stream.rate:,.0f}/s",
        series=publisher,
        x=of.stream.rate,
        rounds=tuple(round(one.p99, 1) for one in of.beyond),
        cpu_us=tuple(round(one.cpu_s / messages * 1e6, 1) for one in of.used),
        peak_mib=max(one.peak_mib for one in of.used),
        wal_bytes=statistics.median(one.wal_bytes / messages for one in of.used),
        also={
            MACHINE: round(statistics.median(one.machine_s for one in of.used) / messages * 1e6, 1),
            "p50 ms": round(statistics.median(one.p50 for one in of.beyond), 1),
            "max ms": round(max(one.most for one in of.beyond), 1),
            "window late p50 ms": statistics.median(one.p50 for one in of.late),
            "window late p99 ms": statistics.median(one.p99 for one in of.late),
            "window late max ms": max(one.most for one in of.late),
        },
        note=f"only {min(of.paced):,.0f} messages/s could be written here" if slow else "",
    )


def _bars(publisher: str, rounds: list[Rounds]) -> Iterator[Bar]:
    for one in rounds:
        of = f"at {one.stream.rate:,.0f}/s with {publisher}"
        beyond = statistics.median(each.p99 for each in one.beyond)
        late = statistics.median(each.p99 for each in one.late)
        yield Bar(f"commit to job beyond the window, p99, {of}", beyond, "≤", BEYOND_MS[publisher], "ms")
        yield Bar(f"window lateness, p99, {of}", late, "≤", LATENESS_MS, "ms")
        if one.stream.rate == LONE_PER_S:
            p50 = statistics.median(each.p50 for each in one.beyond)
            yield Bar(f"lone message beyond the window, p50, {of}", p50, "≤", LONE_MS, "ms")
    late = max(statistics.median(each.p99 for each in one.late) for one in rounds)
    at_any = f"window lateness, p99, at any rate with {publisher}"
    yield Bar(at_any, late, "≤", GOAL_LATENESS_MS, "ms", goal=True)
    early = min(each.least for one in rounds for each in one.late)
    yield Bar(f"least window lateness with {publisher} (never early)", early, "≥", 0, "ms")
