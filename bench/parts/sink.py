"""Part `sink`: outcomes written a second, beside a bare UPDATE of the same rows."""

from __future__ import annotations

from collections.abc import Iterator

from bench.part import Run
from bench.results import Bar, Line, Table
from bench.sink import (
    EVENTS_A_WINDOW,
    ROUND,
    Bench,
    Compared,
    Sink,
    compare,
    kinds,
    outcomes_of,
    prepared,
    producer_of,
    warm_up,
)
from schemas.records import Outcome

PARTITIONS = 8
BAR_RATIO = 0.5
MIXED = "all of it mixed"


def run(run: Run) -> None:
    """Each kind of outcomes in rounds."""
    of_round = run.size("outcomes", ROUND, 4_000)
    found = []
    with prepared(run.at, PARTITIONS) as bench, Sink(bench) as sink:
        producer = producer_of(bench)
        warm_up(bench, producer, sink, of_round)
        for name, outcomes, rows in _kinds(bench, of_round * run.rounds, quick=run.quick):
            found.append(compare(bench, producer, sink, name, outcomes, rows, of_round))
            run.say(str(found[-1]))
    lines = tuple(line for one in found for line in _lines(one))
    note = (
        "The bare statements read nothing from Kafka, decode nothing, check nothing and write no trace. "
        f"WAL is the sink's, an outcome; a round is {of_round:,} outcomes."
    )
    table = Table(title="Outcomes written", unit="outcomes/s", lines=lines, note=note)
    run.found.tables.append(table)
    ratio = next((table.ratio(line) for line in lines if line.name == f"sink, {MIXED}"), None)
    if ratio is not None:
        run.found.bars.append(Bar("sink, of a bare UPDATE, all kinds mixed", ratio.median, "≥", BAR_RATIO))


def _kinds(bench: Bench, count: int, *, quick: bool) -> Iterator[tuple[str, list[Outcome], bool]]:
    if quick:
        yield "windows of three with their job", list(outcomes_of(bench, count, EVENTS_A_WINDOW, True)), True
    else:
        yield from kinds(bench, count)


def _lines(one: Compared) -> Iterator[Line]:
    bare = f"bare UPDATE, {one.name}"
    yield Line(name=bare, rounds=tuple(round(each, 1) for each in one.bare))
    yield Line(
        name=f"sink, {one.name}",
        rounds=tuple(round(each, 1) for each in one.sink),
        of=bare,
        cpu_us=tuple(round(each, 1) for each in one.cpu_us),
        wal_bytes=round(one.wal_bytes),
    )
