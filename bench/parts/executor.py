"""Part `executor`: jobs a second at handler times of 0, 20, 200 ms; what a job costs beyond its handler."""

from __future__ import annotations

from bench.executor import Round, measure
from bench.http import Measure
from bench.part import Run
from bench.results import Bar, Line, Table

CONCURRENCY = 64
BAR_RATIO = 0.7
BAR_DELAY_MS = 20
LOOP, HANDLER, OURS = "bare httpx loop", "our handler alone", "executor"


def run(run: Run) -> None:
    """Each handler time; then lanes' overhead from the same rounds."""
    beyond: list[Line] = []
    for delay_ms in (0, 20, 200):
        jobs = min(run.size("jobs", 5_000), 2_500 if delay_ms == 200 else 5_000)
        run.say(f"turns of {delay_ms} ms, {jobs:,} jobs a round, {CONCURRENCY} at a time")
        found = measure(run.at, jobs, run.rounds, CONCURRENCY, delay_ms)
        table = _table(delay_ms, found)
        run.found.tables.append(table)
        for loop, handler, ours in found:
            run.say(
                f"{LOOP} {loop.per_second:,.0f}/s, {HANDLER} {handler.per_second:,.0f}/s, "
                f"{OURS} {ours.per_second:,.0f}/s"
            )
        beyond.append(_overhead(delay_ms, found))
        ratio = table.ratio(table.line(OURS))
        if delay_ms == BAR_DELAY_MS and ratio is not None:
            what = f"executor, of a bare httpx loop, turns of {delay_ms} ms"
            run.found.bars.append(Bar(what, ratio.median, "≥", BAR_RATIO))
    note = "CPU of the worker a job, less that of the handler alone: lanes, outcomes, leases, Kafka."
    run.found.tables.append(
        Table(
            title="What a job costs beyond its handler",
            unit="µs",
            lines=tuple(beyond),
            better="less",
            note=note,
        )
    )


def _table(delay_ms: int, found: list[tuple[Measure, Measure, Round]]) -> Table:
    lines = (
        Line(
            name=LOOP,
            rounds=tuple(round(loop.per_second, 1) for loop, _, _ in found),
            cpu_us=tuple(round(loop.cpu_us, 1) for loop, _, _ in found),
            note="one client, nothing around it: no order, no outcome, nothing is kept",
        ),
        Line(
            name=HANDLER,
            rounds=tuple(round(handler.per_second, 1) for _, handler, _ in found),
            cpu_us=tuple(round(handler.cpu_us, 1) for _, handler, _ in found),
            of=LOOP,
        ),
        Line(
            name=OURS,
            rounds=tuple(round(ours.per_second, 1) for _, _, ours in found),
            cpu_us=tuple(round(ours.cpu_us, 1) for _, _, ours in found),
            peak_mib=max(ours.peak_mib for _, _, ours in found),
            of=LOOP,
        ),
    )
    return Table(title=f"Jobs, turns of {delay_ms} ms", unit="jobs/s", lines=lines)


def _overhead(delay_ms: int, found: list[tuple[Measure, Measure, Round]]) -> Line:
    rounds = tuple(round(ours.cpu_us - handler.cpu_us, 1) for _, handler, ours in found)
    return Line(name=f"turns of {delay_ms} ms", rounds=rounds)
