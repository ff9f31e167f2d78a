"""Part `publisher`: rows a second from Postgres to Kafka, the relay beside Debezium."""

from __future__ import annotations

from bench import debezium, relay
from bench.part import Run
from bench.relay import Backlog
from bench.results import Line, Table

ROWS = 100_000
PACE, SECONDS = 100.0, 10.0


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
    lines = tuple(
        Line(
            name=name,
            rounds=tuple(round(one.rows / one.seconds, 1) for one in found[name]),
            of="debezium" if name == "relay" and "debezium" in names else "",
            cpu_us=tuple(round(one.cpu_s / one.rows * 1e6, 1) for one in found[name]),
            peak_mib=max(one.peak_mib for one in found[name]),
            also={f"insert to consumer at {PACE:.0f}/s, worst p99 ms": round(max(p99[name]), 1)},
        )
        for name in names
    )
    title = f"{rows:,} rows from behind, ten a transaction"
    run.found.tables.append(Table(title=title, unit="rows/s", lines=lines))
