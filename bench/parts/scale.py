"""Part `scale`: 1, 2 and 4 workers on the same backlog, and the pause at a rolling restart."""

from __future__ import annotations

import os
import statistics

from bench import fleet, workload
from bench.backlog import Result
from bench.paced import Stream
from bench.part import Run
from bench.results import MACHINE, Bar, Line, Table
from bench.servers import own_database
from settings import Settings

FLEETS = (1, 2, 4)
EVENTS, CONTACTS = 100_000, 5_000
CORES = (2, 4, 8, 16)
STREAM = Stream(50, 30)


def run(run: Run) -> None:
    """Both."""
    run.piece("backlog", lambda: _backlog(run))
    run.piece("rolling restart", lambda: _restarts(run))


def _backlog(run: Run) -> None:
    at, found = run.at, {workers: list[Result]() for workers in FLEETS}
    events = run.size("events", EVENTS)
    with own_database(at.admin_url) as url:
        made = workload.make(url, events=events, contacts=min(CONTACTS, events // 20))
        for number in range(run.rounds + 1):
            for workers in FLEETS:
                one = fleet.measure(workers, made, at, url)
                if number:
                    found[workers].append(one)
                run.say(
                    f"{f'round {number}' if number else 'warm-up'}, {workers} workers: "
                    f"{one.rate:,.0f} events/s, {one.cpu_us:.1f} µs CPU an event, {one.busy:.1f} cores busy"
                )
    lines = tuple(_line(workers, found[workers]) for workers in FLEETS)
    note = (
        f"A backlog of {events:,} events on {made_partitions()} partitions, {os.cpu_count()} cores for all."
    )
    run.found.tables.append(
        Table(title="Workers that share a backlog", unit="events/s", lines=lines, note=note)
    )
    run.found.tables.append(_on_paper(found))


def made_partitions() -> int:
    """Of the embedded topics."""
    return Settings().partitions


def _line(workers: int, found: list[Result]) -> Line:
    return Line(
        name=f"{workers} worker{'s' if workers > 1 else ''}",
        rounds=tuple(round(one.rate, 1) for one in found),
        of="1 worker" if workers > 1 else "",
        cpu_us=tuple(round(one.cpu_us, 2) for one in found),
        peak_mib=max(one.used.peak_mib for one in found),
        also={
            MACHINE: round(statistics.median(one.machine_us for one in found), 1),
            "busy cores": round(statistics.median(one.busy for one in found), 2),
        },
        note="CPU and memory are those of all of them" if workers == max(FLEETS) else "",
    )


def _on_paper(found: dict[int, list[Result]]) -> Table:
    """Events/s of more cores: what the machine spent on an event, shared without loss.

    A worker is one thread's worth of Python: it ends at one second over its CPU an event.
    """
    most = found[max(found)]
    machine = tuple(one.machine_us / 1e6 for one in most)
    worker = tuple(one.cpu_us / 1e6 for one in most)
    lines = tuple(
        Line(
            name=f"{cores} cores",
            rounds=tuple(round(cores / each, 1) for each in machine),
            also={
                "workers at least": max(
                    1.0, -(-cores * statistics.median(worker) // statistics.median(machine))
                )
            },
        )
        for cores in CORES
    )
    note = (
        "Computed, not measured: cores over the CPU that the whole machine (worker, Kafka, Postgres, whoever "
        f"else ran) spent on an event with {max(found)} workers. Partitions bound the workers."
    )
    return Table(title="More cores, on paper", unit="events/s", lines=lines, chart="none", note=note)


def _restarts(run: Run) -> None:
    lines, doubled = [], 0
    for name, standbys, named in (
        ("no standby, no name", 0, False),
        ("a standby", 1, False),
        ("a name (static membership)", 0, True),
        ("a standby and a name", 1, True),
    ):
        found = []
        for number in range(run.rounds):
            found.append(fleet.rolling_restart(run.at, STREAM, standbys=standbys, named=named))
            doubled += found[-1].doubled
            run.say(
                f"round {number + 1}, {name}: longest {max(found[-1].ms) / 1000:.2f} s beyond its window, "
                f"{found[-1].doubled} events in two jobs"
            )
        lines.append(
            Line(
                name=name,
                rounds=tuple(round(max(one.ms) / 1000, 3) for one in found),
                also={"p50 ms": round(statistics.median(statistics.median(one.ms) for one in found), 1)},
            )
        )
    worst = max(line.spread.most for line in lines)
    run.found.bars += [
        Bar("longest pause at a rolling restart", worst, "≤", fleet.longest_pause_s(), "s"),
        Bar("events in two jobs after a rolling restart", doubled, "=", 0),
    ]
    note = (
        f"Two workers, {STREAM.rate:.0f} messages a second for {STREAM.seconds:.0f} s; each is stopped "
        "with SIGTERM and started again. None of the messages is lost: all their jobs are waited for."
    )
    table = Table(
        title="Longest wait at a rolling restart", unit="s", lines=tuple(lines), better="less", note=note
    )
    run.found.tables.append(table)
