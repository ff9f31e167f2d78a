"""Part `decisions`: windows decided a second, facts read from Postgres."""

from __future__ import annotations

import asyncio

from bench.decisions import BAR_RATE, GOAL_RATE, bench_database, measure, questions_of
from bench.part import Run
from bench.results import Bar, Line, Table

MESSAGES = 3
SIZES = ((1, 500), (50, 100), (500, 40))
"""Windows a batch, batches a round. A worker decides what is due at once, up to 500 windows."""


def run(run: Run) -> None:
    """Batches of each size, in turn."""
    lines = []
    with bench_database(run.at.admin_url) as url:
        for size, batches in SIZES:
            asked = questions_of(url, size, min(batches, run.size("batches", batches)), MESSAGES)
            found = [asyncio.run(measure(url, asked)) for _ in range(run.rounds)]
            lines.append(
                Line(
                    name=f"batches of {size}",
                    rounds=tuple(round(one.rate, 1) for one in found),
                    cpu_us=tuple(round(one.cpu_us, 1) for one in found),
                    also={"judging alone, µs": round(found[-1].judging_s / found[-1].windows * 1e6, 1)},
                    note="CPU of client and server together" if size == SIZES[-1][0] else "",
                )
            )
            run.say(f"batches of {size}: {lines[-1].spread.median:,.0f} windows/s")
    run.found.tables.append(Table(title="Decisions read from Postgres", unit="windows/s", lines=tuple(lines)))
    what, rate = "decisions read from Postgres, batches of 500", lines[-1].spread.median
    run.found.bars.append(Bar(what, rate, "≥", BAR_RATE, "windows/s"))
    run.found.bars.append(Bar(what, rate, "≥", GOAL_RATE, "windows/s", goal=True))
