"""Part `main-path`: topic to jobs and commit to job row, ours beside a plain loop and the peers."""

from __future__ import annotations

import importlib
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from bench import backlog, commits, workload
from bench.backlog import Result
from bench.guard import OURS, PLAIN
from bench.part import Run
from bench.peer import Peer, Unavailable
from bench.peers.audit import extrapolated_s
from bench.peers.method import PEERS_METHOD
from bench.results import MACHINE, Bar, Line, Table
from bench.results import number as figure
from bench.servers import Servers, own_database
from bench.workload import Workload

TOPIC, COMMIT = "Topic to jobs", "Commit to job row"
"""How the tables of the two ways begin."""
BAR_RATE = 20_000
BAR_RATIO = 0.6
GOAL_RATIO = 0.8


@dataclass(frozen=True, slots=True)
class Size:
    """Events and contacts of a backlog."""

    events: int
    contacts: int

    @property
    def per_window(self) -> int:
        """Events a window: ten, or as few as it takes for every contact to write."""
        return max(1, min(workload.PER_WINDOW, self.events // self.contacts))

    def __str__(self) -> str:
        return f"{_short(self.events)} events of {_short(self.contacts)} contacts"


BURSTS, LONE = Size(100_000, 5_000), Size(100_000, 100_000)
"""The bars are those of ten events a window; the goals, those of one a window as well."""
GOAL_RATES = {BURSTS: 80_000, LONE: 35_000}
SIZES = (Size(20_000, 500), BURSTS, LONE, Size(1_000_000, 50_000))
QUICK = (Size(40_000, 2_000),)


def _short(count: int) -> str:
    return f"{count // 1_000_000} M" if count >= 1_000_000 else f"{count:,}"


@dataclass(slots=True)
class Contestant:
    """A line while it is measured."""

    name: str
    measure: Callable[[], Result]
    note: str = ""
    of: str = ""
    results: list[Result] = field(default_factory=list)
    failed: str = ""


def run(run: Run) -> None:
    """Measure every size, both ways."""
    sizes = QUICK if run.quick else SIZES
    most = run.size("events", 1_000_000)
    peers = () if run.quick else tuple(_peers(run))
    for size in sizes:
        if size.events > most:
            run.found.notes.append(f"{size}: left out, larger than asked for")
            continue
        run.piece(f"{TOPIC}, {size}", lambda size=size: _topic(run, size, peers))  # type: ignore[misc]
    for size in sizes if not run.quick else ():
        if size.events <= most:
            run.piece(f"{COMMIT}, {size}", lambda size=size: _commit(run, size, peers))  # type: ignore[misc]


def _peers(run: Run) -> Iterator[Peer]:
    """Those that can run here and are asked for; the others are told."""
    # Only a run that wants them pays for them; and what they need is not always installed.
    peers: tuple[Peer, ...] = importlib.import_module("bench.peers").PEERS
    for peer in peers:
        if not run.wants(peer.name):
            continue
        try:
            run.found.versions[peer.name] = peer.version()
        except Unavailable as error:
            run.found.notes.append(f"{peer.name}: {error}")
        else:
            run.found.peers_method = PEERS_METHOD
            yield peer


def _topic(run: Run, size: Size, peers: Sequence[Peer]) -> None:
    at = run.at
    with own_database(at.admin_url) as url:
        run.say(f"topic to jobs, {size}")
        made = workload.make(url, events=size.events, contacts=size.contacts, per_window=size.per_window)
        lines = [
            Contestant(PLAIN, lambda: backlog.measure(PLAIN, made, at, url), "the limit: no guarantees"),
            Contestant(OURS, lambda: backlog.measure("worker", made, at, url, run.wrap), of=PLAIN),
        ]
        lines = [one for one in lines if run.wants(one.name)]
        lines += _peer_lines(run, size, [one for one in peers if one.way == "topic"], made, at, url)
        _rounds(run, lines)
    table = _table(f"{TOPIC}, {size}", lines)
    if table is None:
        return
    run.found.tables.append(table)
    run.found.bars += bars_of(size, table)


def bars_of(size: Size, table: Table) -> Iterator[Bar]:
    """Bars and goals that a size has, as far as its table has what they are of."""
    ours = next((one for one in table.lines if one.name == OURS), None)
    if ours is None or size not in GOAL_RATES:
        return
    rate, ratio = ours.spread.median, table.ratio(ours)
    what, of_plain = f"topic to jobs, {size}", f"of the plain loop, {size}"
    if size == BURSTS:
        yield Bar(what, rate, "≥", BAR_RATE, "events/s")
    yield Bar(what, rate, "≥", GOAL_RATES[size], "events/s", goal=True)
    if ratio is not None and size == BURSTS:
        yield Bar(of_plain, ratio.median, "≥", BAR_RATIO)
    if ratio is not None:
        yield Bar(of_plain, ratio.median, "≥", GOAL_RATIO, goal=True)


def _commit(run: Run, size: Size, peers: Sequence[Peer]) -> None:
    at = run.at

    def ours() -> Result:
        """One round of relay, worker and sink."""
        return commits.measure(
            OURS, at, events=size.events, contacts=size.contacts, per_window=size.per_window
        )

    run.say(f"commit to job row, {size}")
    lines = [Contestant(OURS, ours, "relay, worker and sink together")] if run.wants(OURS) else []
    of_postgres = [one for one in peers if one.way == "commit"]
    with own_database(at.admin_url) as url:
        if of_postgres:
            made = workload.make(url, events=size.events, contacts=size.contacts, per_window=size.per_window)
            lines += _peer_lines(run, size, of_postgres, made, at, url)
        _rounds(run, lines)
    table = _table(f"{COMMIT}, {size}", lines)
    if table is not None:
        run.found.tables.append(table)


def _peer_lines(
    run: Run, size: Size, peers: Sequence[Peer], made: Workload, at: Servers, url: str
) -> Iterator[Contestant]:
    for peer in peers:
        if size.events > peer.most_events:
            run.found.notes.append(not_given(peer, size, run.found.tables))
        else:
            yield Contestant(peer.name, lambda peer=peer: peer.measure(made, at, url), peer.work, OURS)  # type: ignore[misc]


def not_given(peer: Peer, size: Size, tables: Sequence[Table]) -> str:
    """Why a slow peer was not given a size: how long it would take, going by what was measured of it."""
    way = TOPIC if peer.way == "topic" else COMMIT
    known = [one for table in tables if table.title.startswith(way) for one in table.lines]
    mine = [one for one in known if one.name == peer.name]
    if not mine:
        return f"{peer.name}: not given {size}, it would take too long"
    pace = mine[-1].spread.median
    return (
        f"{peer.name}: not given {size}; at its {figure(pace)} events/s it would take "
        f"{figure(extrapolated_s(pace, 1.0, size.events))} s (extrapolated, not measured)"
    )


def _rounds(run: Run, lines: Sequence[Contestant]) -> None:
    """All in turn, the order changing; the first round warms up. Who fails is left out from then on.

    A peer that failed is a note, ours or the plain loop end the part.
    """
    for number in range(run.rounds + 1):
        for line in lines if number % 2 else [*reversed(lines)]:
            if line.failed or (number == 0 and line.name not in (OURS, PLAIN)):
                continue
            try:
                result = line.measure()
            except Exception as error:
                if line.name in (OURS, PLAIN):
                    raise
                line.failed = f"{line.name}: {str(error).splitlines()[0] if str(error) else repr(error)}"
                run.found.notes.append(line.failed)
                run.say(line.failed)
                continue
            if number:
                line.results.append(result)
            run.say(
                f"{f'round {number}' if number else 'warm-up'} {line.name:14} {result.rate:9,.0f} events/s, "
                f"{result.cpu_us:5.1f} µs CPU an event ({result.machine_us:.1f} of the machine's), "
                f"{result.busy:.1f} cores busy"
            )


def _table(title: str, lines: Sequence[Contestant]) -> Table | None:
    told = tuple(_line(one) for one in lines if one.results)
    return Table(title=title, unit="events/s", lines=told) if told else None


def _line(one: Contestant) -> Line:
    repeated = sum(result.repeated for result in one.results)
    return Line(
        name=one.name,
        rounds=tuple(round(result.rate, 1) for result in one.results),
        of=one.of,
        cpu_us=tuple(round(result.cpu_us, 2) for result in one.results),
        peak_mib=max(result.used.peak_mib for result in one.results),
        wal_bytes=statistics.median(result.wal_bytes for result in one.results),
        also={
            MACHINE: round(statistics.median(result.machine_us for result in one.results), 1),
            "jobs": statistics.median(result.jobs for result in one.results),
            "busy cores": round(statistics.median(result.busy for result in one.results), 2),
            **({"jobs repeated": float(repeated)} if repeated else {}),
        },
        note=one.note,
    )
