"""Part `publisher`: rows a second from Postgres to Kafka, the relay beside Debezium."""

from __future__ import annotations

import statistics

from bench import debezium, relay
from bench.part import Run
from bench.relay import Backlog
from bench.results import MACHINE, Bar, Line, Table

ROWS = 100_000
PACE, SECONDS = 100.0, 10.0
GOAL_RATE = 30_000


def run(run: Run) -> None:
    """A backlog each, in turn."""
    rows, at = run.size("rows", ROWS), run.at
    names = [name for name in ("relay", "debezium") if run.wants(name)]
    found: dict[str, list[Backlog]] = {name: [] for name in names}
    p99: dict[str, list[float]] = {name: [] for name in names}
    for number in range(run.rounds):
        for name in names:
            if name == "relay":
                behind, told = relay.backlog(at, rows), relay.latency(at, PACE, SECONDS)
            else:
                behind, told = debezium.measure(at, rows, PACE, SECONDS, exactly_once=False)
            found[name].append(behind)
            p99[name].append(told.p99)
            run.say(f"round {number + 1} {name}: {behind}; insert to consumer p99 {told.p99:.0f} ms")
    lines = tuple(_line(name, names, found[name], max(p99[name])) for name in names)
    title = f"{rows:,} rows from behind, ten a transaction"
    run.found.tables.append(Table(title=title, unit="rows/s", lines=lines))
    run.found.bars += [
        Bar("relay, rows from behind", line.spread.median, "≥", GOAL_RATE, "rows/s", goal=True)
        for line in lines
        if line.name == "relay"
    ]


def _line(name: str, names: list[str], found: list[Backlog], worst_ms: float) -> Line:
    return Line(
        name=name,
        rounds=tuple(round(one.rows / one.seconds, 1) for one in found),
        of="debezium" if name == "relay" and "debezium" in names else "",
        cpu_us=tuple(round(one.used.cpu_s / one.rows * 1e6, 1) for one in found),
        peak_mib=max(one.used.peak_mib for one in found),
        wal_bytes=statistics.median(one.used.wal_bytes / one.rows for one in found),
        also={
            MACHINE: round(statistics.median(one.used.machine_s / one.rows for one in found) * 1e6, 1),
            f"insert to consumer at {PACE:.0f}/s, worst p99 ms": round(worst_ms, 1),
        },
    )
