"""`docs/benchmarks.md` from the figures in `docs/benchmarks/`: what was measured, where, when and how.

Every part stands with its own date, load and machine, since they are measured one by one; what was not
measured is said.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from bench import tell
from bench.peers.method import PEERS_METHOD
from bench.registry import PARTS
from bench.results import Bar, Result, Table, load

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Benchmarks

<!-- Written by `python -m bench`; change bench/page.py instead. -->

`make bench` measures all of this on one machine, `python -m bench PART…` a part, `make bench-quick` a
subset in under three minutes. Each starts what it needs (or takes the servers that
`KAFKA_BOOTSTRAP_SERVERS` and `DATABASE_URL` name), measures what is compared in turn in one run on the same
data, and writes the figures with their plots into `docs/benchmarks/`.

**What to read from it.** Ratios, CPU an event and the shape of a line hold on other machines too. Events a
second and milliseconds are those of this machine, which also ran Kafka, Postgres and the load: read them
beside the plain loop of the same run, and beside the load that is told. Figures are the least, the median
and the most of the rounds. A bar that is missed stays in the table; a goal lies beyond the bars and says how
far there is to go.

Continuous integration runs `make bench-guard` and fails when the worker's CPU an event, beside the plain
loop's, is more than 30 % above the committed ratio.

By themselves, with figures on the terminal alone: `python -m bench.web` (group links taken in),
`bench.reconcile` (stuck instances), `bench.transport` (the transport without the pipeline), `bench.http`.
"""


def write(folder: Path, page: Path) -> None:
    """Write the page of all figures that lie in `folder`."""
    results = {one.part: one for one in map(load, sorted(folder.glob("*.json")))}
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text(results, Path(os.path.relpath(folder, page.parent))), encoding="utf-8")


def text(results: dict[str, Result], folder: Path) -> str:
    """The page; `folder`: where plots and figures lie, as seen from it."""
    pieces = [INTRODUCTION, _peers_method(results)]
    bars = [(result, bar) for part in PARTS if (result := results.get(part.name)) for bar in result.bars]
    if bars:
        pieces.append("## Bars\n\n" + "\n".join(_bars(bars)) + "\n")
    for part in PARTS:
        if part.name in results:
            pieces.append("\n".join(_part(results[part.name], folder)))
        else:
            pieces.append(
                f"## {part.title}\n\nNot measured yet: `python -m bench {part.name}` "
                f"takes about {part.minutes:g} minutes.\n"
            )
    return "\n".join(pieces)


def _peers_method(results: dict[str, Result]) -> str:
    """As it was when they were measured last; where they never were, as it would be now."""
    told = sorted((one.at, one.peers_method) for one in results.values() if one.peers_method)
    return told[-1][1] if told else PEERS_METHOD


def _bars(bars: list[tuple[Result, Bar]]) -> Iterator[str]:
    yield from _head(["", "measured", "bar", "", "part"])
    for result, bar in bars:
        verdict = f"**{bar.verdict}**" if bar.missed else bar.verdict
        yield _row([*tell.bar_cells(bar), verdict, f"[{result.title}](#{_anchor(result.title)})"])


def _part(result: Result, folder: Path) -> Iterator[str]:
    yield f"## {result.title}\n"
    yield f"{result.method.strip()}\n"
    machine, where = result.machine, "quick run, small data; " if result.quick else ""
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    yield (
        f"*{where}{result.at[:16].replace('T', ' ')} UTC, {result.seconds / 60:.1f} min, "
        f"rounds: {result.rounds}; "
        f"load {result.load_before:g} before and {result.load_after:g} after on {machine.cores} cores; "
        f"{machine.processor}, {machine.memory_gib:g} GiB, {machine.system}; {versions}. "
        f"[Figures]({folder.as_posix()}/{result.part}.json).*\n"
    )
    for place, table in enumerate(result.tables, 1):
        yield from _table(table, f"{folder.as_posix()}/{result.part}-{place}")
    for note in result.notes:
        yield f"- {_plain(note)}"
    if result.notes:
        yield ""
    if result.failed:
        yield f"**Ended before its end:** `{_plain(result.failed)}`\n"


def _table(table: Table, plot: str) -> Iterator[str]:
    yield f"### {table.title}\n"
    if table.note:
        yield f"{table.note}\n"
    if table.chart != "none" and table.lines:
        yield f"![{table.title}: the figures of the table below as a plot]({plot}.svg)\n"
    yield from _head(tell.columns(table))
    for line in table.lines:
        yield _row([*tell.cells(table, line)])
    yield ""
    for line in table.lines:
        if line.note:
            yield f"- {line.name}: {_plain(line.note)}"
    if any(line.note for line in table.lines):
        yield ""


def _head(titles: list[str]) -> Iterator[str]:
    yield _row(titles)
    yield _row(["---", *("---:" for _ in titles[1:])])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(_plain(cell) for cell in cells)} |"


def _plain(cell: str) -> str:
    """On one line, with no end of a cell in it."""
    return " ".join(cell.split()).replace("|", "\\|")


def _anchor(title: str) -> str:
    return "-".join("".join(one for one in title.lower() if one.isalnum() or one in " -").split())
