"""Part `sink`: outcomes written a second, beside a bare UPDATE of the same rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from bench.part import Run
from bench.results import MACHINE, Bar, Line, Table
from bench.sink import Compared, Sink, compare, prepared, producer_of, warm_up
from bench.sink_workload import EVENTS_A_WINDOW, MIXED, ROUND, Bench, Kind, kinds, outcomes_of

PARTITIONS = 8
BAR_RATIO = 0.5
GOAL_ROWS = 20_000


def run(run: Run) -> None:
    """Each kind of outcomes in rounds."""
    of_round = run.size("outcomes", ROUND, 4_000)
    found = []
    with prepared(run.at, PARTITIONS) as bench, Sink(bench) as sink:
        producer = producer_of(bench)
        warm_up(bench, producer, sink, of_round)
        for kind in _kinds(bench, of_round * run.rounds, of_round, quick=run.quick):
            found.append(compare(bench, producer, sink, kind, of_round))
            run.say(str(found[-1]))
    lines = tuple(line for one in found for line in _lines(one))
    note = (
        "The bare statements read nothing from Kafka, decode nothing, check nothing and write no trace. "
        "Rows are those of events and jobs. "
        f"A round is {of_round:,} outcomes; a start or an end of a job counts as its row."
    )
    table = Table(title="Outcomes written", unit="outcomes/s", lines=lines, note=note)
    run.found.tables.append(table)
    ratio = next((table.ratio(line) for line in lines if line.name == f"sink, {MIXED}"), None)
    if ratio is not None:
        run.found.bars.append(Bar("sink, of a bare UPDATE, all kinds mixed", ratio.median, "≥", BAR_RATIO))
    run.found.bars += [
        Bar("sink, all kinds mixed", one.rows_per_s, "≥", GOAL_ROWS, "rows/s", goal=True)
        for one in found
        if one.name == MIXED
    ]


def _kinds(bench: Bench, count: int, of_round: int, *, quick: bool) -> Iterator[Kind]:
    if quick:
        outcomes = list(outcomes_of(bench, count, EVENTS_A_WINDOW, True))
        yield Kind("windows of three with their job", outcomes)
    else:
        yield from kinds(bench, count, of_round)


def _lines(one: Compared) -> Iterator[Line]:
    bare = f"bare UPDATE, {one.name}"
    yield Line(name=bare, rounds=tuple(round(each, 1) for each in one.bare))
    yield Line(
        name=f"sink, {one.name}",
        rounds=tuple(round(each, 1) for each in one.sink),
        of=bare,
        cpu_us=tuple(round(each.cpu_s / one.outcomes * 1e6, 1) for each in one.used),
        peak_mib=max(each.peak_mib for each in one.used),
        wal_bytes=round(statistics.median(each.wal_bytes for each in one.used) / one.outcomes),
        also={
            MACHINE: round(statistics.median(each.machine_s for each in one.used) / one.outcomes * 1e6, 1),
            "rows/s": round(one.rows_per_s, 1),
        },
    )
