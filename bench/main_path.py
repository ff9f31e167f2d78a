"""The main path: topic to jobs beside a plain loop, insert to job row, lateness of windows.

    python -m bench.main_path [--events 100000] [--contacts 5000] [--rounds 2] [--only …] [--json]

On the servers that KAFKA_BOOTSTRAP_SERVERS and DATABASE_URL (a superuser's) name, else on embedded ones. What
is measured and how stands in bench.workload, bench.backlog, bench.plain_loop and bench.trickle. Both
processes of the backlog run in the same rounds, in turn, so that their ratio says something on a machine
that others use too; the ratio is that of the medians. A first round warms up the servers and is not counted:
a broker that was started a moment ago is a fifth slower. Exit code 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from dataclasses import asdict, dataclass

import msgspec
from rich.console import Console
from rich.table import Table

from bench import backlog, trickle, workload
from bench.backlog import Result
from bench.servers import own_database, servers
from bench.trickle import Trickle
from logs import configure_logging
from settings import Settings

BAR_RATE = 20_000
BAR_RATIO = 0.6
BAR_LONE_MS = 300
BAR_BEYOND_P99_MS = 150
BAR_LATENESS_P99_MS = 100


@dataclass(frozen=True, slots=True)
class Bar:
    """One bar and how it was met."""

    what: str
    measured: str
    bar: str
    met: bool


def run_backlog(
    events: int, contacts: int, per_window: int, rounds: int, wrap: tuple[str, ...], say: Console
) -> list[Result]:
    """Worker and loop in turn, once to warm up the servers and then `rounds` times, the order changing."""
    with servers() as at, own_database(at.admin_url) as url:
        made = workload.make(url, events=events, contacts=contacts, per_window=per_window)
        say.print(f"{len(made.events):,} events of {contacts:,} contacts, {made.windows:,} windows")
        results = []
        for number in range(rounds + 1):
            order = ("plain-loop", "worker") if number % 2 else ("worker", "plain-loop")
            for name in order:
                result = backlog.measure(name, made, at, url, wrap if name == "worker" else ())
                if number:
                    results.append(result)
                say.print(
                    f"  {f'round {number}' if number else 'warm-up'} {name:10} {result.rate:9,.0f} events/s, "
                    f"{result.busy:.1f} of {os.cpu_count()} cores busy"
                )
    return results


def backlog_table(results: list[Result]) -> Table:
    """Both processes, a line each."""
    table = Table(title="Topic to jobs", title_justify="left")
    for title in (
        "",
        "events/s",
        "each round",
        "CPU µs/event",
        "CPU s",
        "busy cores",
        "peak MiB",
        "jobs",
        "repeated",
    ):
        table.add_column(title, justify="left" if title in ("", "each round") else "right")
    for name in ("worker", "plain-loop"):
        of = [one for one in results if one.name == name]
        table.add_row(
            name,
            f"{median_rate(results, name):,.0f}",
            " ".join(f"{one.rate:,.0f}" for one in of),
            f"{statistics.median(one.cpu_us for one in of):.0f}",
            f"{statistics.median(one.cpu_s for one in of):.1f}",
            f"{statistics.median(one.busy for one in of):.1f} of {os.cpu_count()}",
            f"{max(one.peak_mib for one in of):.0f}",
            f"{of[0].jobs:,}",
            str(sum(one.repeated for one in of)),
        )
    return table


def trickle_table(measured: Trickle) -> Table:
    """The distributions, a line each."""
    table = Table(title="Insert to job row, ms beyond the window", title_justify="left")
    for title in ("", "n", "least", "p50", "p99", "most"):
        table.add_column(title, justify="right" if title else "left")
    lines = (
        ("lone message, idle system", measured.lone),
        (f"{measured.rate:.0f} messages/s", measured.steady),
        ("window decided after its deadline", measured.lateness),
    )
    for name, of in lines:
        numbers = (of.least, of.p50, of.p99, of.most)
        table.add_row(name, str(of.count), *(f"{number:.0f}" for number in numbers))
    used = ", ".join(f"{name} {seconds:.2f}" for name, seconds in measured.cpu_s.items())
    table.caption = f"CPU seconds in {measured.seconds:.0f} s: {used}"
    table.caption_justify = "left"
    return table


def median_rate(results: list[Result], name: str) -> float:
    """Median events/s of a process over the rounds."""
    return statistics.median(one.rate for one in results if one.name == name)


def bars(results: list[Result], measured: Trickle | None) -> list[Bar]:
    """Every bar that was measured."""
    found = []
    if results:
        rate = median_rate(results, "worker")
        ratio = rate / median_rate(results, "plain-loop")
        found += [
            Bar("topic to jobs", f"{rate:,.0f} events/s", f"≥ {BAR_RATE:,} events/s", rate >= BAR_RATE),
            Bar("of the plain loop", f"{ratio:.2f}", f"≥ {BAR_RATIO}", ratio >= BAR_RATIO),
        ]
    if measured is not None:
        lone, beyond, late = measured.lone, measured.steady.p99, measured.lateness
        found += [
            Bar("lone message, p50", f"{lone.p50:.0f} ms", f"≤ {BAR_LONE_MS} ms", lone.p50 <= BAR_LONE_MS),
            Bar(
                "beyond the window, p99",
                f"{beyond:.0f} ms",
                f"≤ {BAR_BEYOND_P99_MS} ms",
                beyond <= BAR_BEYOND_P99_MS,
            ),
            Bar(
                "window lateness, p99",
                f"{late.p99:.0f} ms",
                f"≤ {BAR_LATENESS_P99_MS} ms",
                late.p99 <= BAR_LATENESS_P99_MS,
            ),
            Bar("never early", f"{late.least:.0f} ms", "≥ 0 ms", late.least >= 0),
        ]
    return found


def bars_table(found: list[Bar]) -> Table:
    """The bars, a line each."""
    table = Table(title="Bars", title_justify="left")
    for title in ("", "measured", "bar", ""):
        table.add_column(title)
    for bar in found:
        table.add_row(bar.what, bar.measured, bar.bar, "[green]met" if bar.met else "[red]MISSED")
    return table


def as_json(results: list[Result], measured: Trickle | None, found: list[Bar]) -> str:
    """All figures for programs."""
    told = {
        "backlog": [
            {
                **asdict(one),
                "rate": round(one.rate),
                "cpu_us": round(one.cpu_us, 1),
                "busy": round(one.busy, 2),
            }
            for one in results
        ],
        "trickle": asdict(measured) if measured is not None else None,
        "bars": [asdict(bar) for bar in found],
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
    }
    return msgspec.json.encode(told).decode()


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--contacts", type=int, default=5_000)
    parser.add_argument("--per-window", type=int, default=workload.PER_WINDOW, help="events a window")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--lone", type=int, default=30, help="lone messages")
    parser.add_argument("--steady", type=int, default=300, help="messages at a steady rate")
    parser.add_argument("--rate", type=float, default=20.0, help="of the steady ones, a second")
    parser.add_argument("--only", choices=("backlog", "trickle"))
    parser.add_argument("--wrap", default="", help="command put before the worker's, for a profiler")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    say = Console(stderr=True, highlight=False)
    configure_logging(Settings(log_level="WARNING"))
    results: list[Result] = []
    measured: Trickle | None = None
    if given.only != "trickle":
        wrap = tuple(given.wrap.split())
        results = run_backlog(given.events, given.contacts, given.per_window, given.rounds, wrap, say)
    if given.only != "backlog":
        with servers() as at:
            measured = trickle.measure(at, lone=given.lone, steady=given.steady, rate=given.rate)
    found = bars(results, measured)
    if given.json:
        print(as_json(results, measured, found))
    else:
        console = Console(highlight=False, width=None if sys.stdout.isatty() else 120)
        if results:
            console.print(backlog_table(results))
        if measured is not None:
            console.print(trickle_table(measured))
        console.print(bars_table(found))
    return 0 if all(bar.met for bar in found) else 1


if __name__ == "__main__":
    sys.exit(main())
