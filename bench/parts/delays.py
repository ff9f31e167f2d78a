"""Part `delays`: lateness over all tiers that fit into a run, at 1,000 and at 10,000 records a second."""

from __future__ import annotations

import statistics

from bench.delays import BAR_MS, Measured, measure
from bench.part import Run
from bench.results import Bar, Line, Table
from streams.due import DELAY_TOPICS

RATES = (1_000, 10_000)
SECONDS = 30
LONGEST_S = 65
"""A little above the minute's tier."""


def run(run: Run) -> None:
    """Each rate, `rounds` times."""
    seconds, longest = run.size("seconds", SECONDS), run.size("longest", LONGEST_S)
    bootstrap, lines = run.at.bootstrap, []
    for rate in RATES:
        if rate > run.size("rate", max(RATES)):
            continue
        found = []
        for number in range(run.rounds):
            found.append(measure(bootstrap, rate=rate, seconds=seconds, longest=longest))
            told = found[-1]
            run.say(
                f"round {number + 1} {rate:,}/s: {told.sent_per_s:,.0f}/s were sent, "
                f"p99 {told.late_ms(0.99):.0f} ms late, "
                f"{told.early} early, {told.missing} missing, {told.twice} twice"
            )
        lines.append(_line(rate, found))
        late = statistics.median(one.late_ms(0.99) for one in found)
        run.found.bars += [
            Bar(f"delay lateness, p99, at {rate:,}/s", late, "≤", BAR_MS, "ms"),
            Bar(f"early at {rate:,}/s", sum(one.early for one in found), "=", 0),
            Bar(f"lost or doubled at {rate:,}/s", sum(one.missing + one.twice for one in found), "=", 0),
        ]
    note = (
        f"The 99th percentile of each round: {seconds} s of records, delays from 10 ms to {longest} s. "
        f"The ladder has {len(DELAY_TOPICS)} topics; the longer ones are the same code over longer waits, "
        "for which no round waits."
    )
    run.found.tables.append(
        Table(
            title="Lateness of delayed records", unit="p99 ms", lines=tuple(lines), better="less", note=note
        )
    )


def _line(rate: int, found: list[Measured]) -> Line:
    sent = min(one.sent_per_s for one in found)
    slow = f"; only {sent:,.0f} a second could be sent here" if sent < 0.95 * rate else ""
    return Line(
        name=f"{rate:,} records/s",
        rounds=tuple(round(one.late_ms(0.99), 1) for one in found),
        cpu_us=tuple(round(one.cpu_s / max(one.hops, 1) * 1e6, 1) for one in found),
        peak_mib=max(one.peak_mib for one in found),
        also={
            "p50 ms": round(statistics.median(one.late_ms(0.5) for one in found), 1),
            "max ms": round(max(one.late_ms(1.0) for one in found), 1),
            "hops": statistics.median(one.hops for one in found),
        },
        note=f"CPU is that of the forwarder, a hop{slow}",
    )
