"""Part `growth`: what an event costs while what lies around it grows; the last at most 1.3 of the first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from bench import backlog, growth, workload
from bench.growth import CONVERSATIONS, SinkBeside, crm, decisions_us
from bench.part import Run
from bench.results import Bar, Line, Table
from bench.servers import own_database

BAR_FLAT = 1.3
EVENTS, CONTACTS = 20_000, 500
WINDOWS = (1_000, 10_000, 100_000, 1_000_000)
ROWS = (10_000, 100_000, 1_000_000, 10_000_000)
MESSAGES = (10, 1_000, 10_000, 100_000)
JOBS = (1_000, 10_000, 100_000, 1_000_000)
OUTCOMES = 4_000


@dataclass(frozen=True, slots=True)
class Growing:
    """Something that grows in Postgres, and the work that is done beside it."""

    what: str
    """Key of bench.growth.GROWN."""
    title: str
    x_title: str
    there: int
    """How many the small CRM has already."""
    sizes: tuple[int, ...]
    decided: Callable[[str], float]
    """CPU µs a window."""
    sink: bool
    """Whether the sink's writer is measured too."""


def _widely(url: str) -> float:
    return decisions_us(url, batch_size=500, batches=4, times=3)


def _the_long_ones(url: str) -> float:
    """The same few conversations again and again: those that have grown."""
    return decisions_us(url, batch_size=CONVERSATIONS, batches=1, times=200)


GROWING = (
    Growing("event_log", "event_log grows", "rows of event_log", 10_000, ROWS, _widely, sink=True),
    Growing(
        "messages",
        "Conversations grow",
        "messages of a conversation",
        5,
        MESSAGES,
        _the_long_ones,
        sink=False,
    ),
    Growing("jobs", "Pending jobs grow", "pending jobs", 0, JOBS, _widely, sink=True),
)


def run(run: Run) -> None:
    """What is asked for of: windows, event_log, messages, jobs (`--only`)."""
    if run.wants("windows"):
        run.piece("windows", lambda: _windows(run))
    for one in GROWING:
        if run.wants(one.what):
            run.piece(one.what, lambda one=one: _grow(run, one))  # type: ignore[misc]


def _sizes(run: Run, sizes: tuple[int, ...], title: str) -> list[int]:
    most = run.size("most", max(sizes))
    kept = [size for size in sizes if size <= most]
    if len(kept) < len(sizes):
        run.found.notes.append(f"{title}: up to {kept[-1]:,} instead of {sizes[-1]:,}")
    return kept


def _windows(run: Run) -> None:
    """The worker's CPU an event of a backlog, with so many windows of other contacts open in its state."""
    at, title = run.at, "Open windows grow"
    sizes = _sizes(run, WINDOWS, title)
    rates: dict[int, list[float]] = {size: [] for size in sizes}
    costs: dict[int, list[float]] = {size: [] for size in sizes}
    peak: dict[int, float] = dict.fromkeys(sizes, 0.0)
    with own_database(at.admin_url) as url:
        made = workload.make(url, events=EVENTS, contacts=CONTACTS)
        for number in range(run.rounds + 1):
            for size in sizes if number else sizes[:1]:  # the first warms up
                one = backlog.measure(
                    "worker",
                    made,
                    at,
                    url,
                    prepare=lambda settings, size=size: growth.open_windows(at.bootstrap, settings, size),  # type: ignore[misc]
                )
                run.say(
                    f"{f'round {number}' if number else 'warm-up'}, {size:,} open windows: "
                    f"{one.rate:,.0f} events/s, {one.cpu_us:.1f} µs CPU an event"
                )
                if number:
                    rates[size].append(round(one.rate, 1))
                    costs[size].append(round(one.cpu_us, 2))
                    peak[size] = max(peak[size], one.used.peak_mib)
    lines = tuple(
        Line(
            name=f"{size:,} open windows",
            series="worker",
            x=size,
            rounds=tuple(costs[size]),
            of=f"{sizes[0]:,} open windows" if size > sizes[0] else "",
            peak_mib=peak[size],
            also={"events/s": sorted(rates[size])[len(rates[size]) // 2]},
        )
        for size in sizes
    )
    _keep(run, title, "open windows", lines, "CPU of the worker an event.")


def _grow(run: Run, one: Growing) -> None:
    """One database that grows from size to size, the work measured at each."""
    sizes = _sizes(run, one.sizes, one.title)
    lines: list[Line] = []
    with crm(run.at.admin_url) as url:
        before = one.there
        for size in sizes:
            growth.grow(url, one.what, before, size, run.say)
            before = size
            lines += _measured(run, one, url, size, sizes[0])
    note = "CPU of client and server: a window decided; an outcome of three events written with its job."
    _keep(run, one.title, one.x_title, tuple(sorted(lines, key=lambda line: line.series)), note)


def _measured(run: Run, one: Growing, url: str, size: int, first: int) -> Iterator[Line]:
    works: dict[str, Callable[[], float]] = {"decisions": lambda: one.decided(url)}
    sink = SinkBeside(url) if one.sink else None
    if sink is not None:
        works["sink"] = lambda: sink.outcomes_us(OUTCOMES)
    try:
        for name, work in works.items():
            work()  # what lies in no cache yet is read
            rounds = tuple(round(work(), 1) for _ in range(run.rounds))
            line = Line(
                name=f"{name}, {size:,} {one.what}",
                series=name,
                x=size,
                rounds=rounds,
                of=f"{name}, {first:,} {one.what}" if size > first else "",
            )
            run.say(f"{line.name}: {line.spread.median:.0f} µs CPU")
            yield line
    finally:
        if sink is not None:
            sink.close()


def _keep(run: Run, title: str, x_title: str, lines: tuple[Line, ...], note: str) -> None:
    table = Table(
        title=title, unit="µs CPU", lines=lines, better="less", chart="lines", x_title=x_title, note=note
    )
    run.found.tables.append(table)
    for series in dict.fromkeys(line.series for line in lines):
        points = [line for line in lines if line.series == series]
        ratio = points[-1].spread.median / points[0].spread.median
        what = f"{title}, {series}: {points[-1].x:,.0f} beside {points[0].x:,.0f}"
        run.found.bars.append(Bar(what, round(ratio, 3), "≤", BAR_FLAT))
