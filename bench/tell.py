"""Figures on a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console
from rich.table import Table as Shown

from bench.results import Bar, Line, Result, Spread, Table, number


def spread(of: Spread | None) -> str:
    """Least / median / most, or nothing."""
    return "" if of is None else f"{number(of.least)} / {number(of.median)} / {number(of.most)}"


def columns(table: Table) -> list[str]:
    """Titles of the columns that this table has something for."""
    titles = ["", f"{table.unit}, min / median / max"]
    if any(one.of for one in table.lines):
        titles.append("ratio, min / median / max")
    if any(one.cpu_us for one in table.lines):
        titles.append("CPU µs each")
    if any(one.peak_mib is not None for one in table.lines):
        titles.append("MiB")
    if any(one.wal_bytes is not None for one in table.lines):
        titles.append("WAL bytes each")
    return [*titles, *also(table)]


def also(table: Table) -> list[str]:
    """Names of the further figures, in the order in which lines bring them."""
    return list(dict.fromkeys(name for one in table.lines for name in one.also))


def cells(table: Table, line: Line) -> Iterator[str]:
    """A line's cells, under `columns`."""
    yield line.name
    yield spread(line.spread)
    if any(one.of for one in table.lines):
        ratio = table.ratio(line)
        yield f"{spread(ratio)} of {line.of}" if ratio is not None else ""
    if any(one.cpu_us for one in table.lines):
        yield number(line.cpu.median) if line.cpu is not None else ""
    if any(one.peak_mib is not None for one in table.lines):
        yield f"{line.peak_mib:,.0f}" if line.peak_mib is not None else ""
    if any(one.wal_bytes is not None for one in table.lines):
        yield f"{line.wal_bytes:,.0f}" if line.wal_bytes is not None else ""
    for name in also(table):
        yield number(line.also[name]) if name in line.also else ""


def bar_cells(bar: Bar) -> tuple[str, str, str]:
    """What, measured, bar."""
    unit = f" {bar.unit}" if bar.unit else ""
    return bar.what, f"{number(bar.value)}{unit}", f"{bar.sign} {number(bar.limit)}{unit}"


def tell(result: Result, console: Console) -> None:
    """A part's tables, bars and notes."""
    for table in result.tables:
        console.print(_shown(table.title, columns(table), (cells(table, one) for one in table.lines)))
    if result.bars:
        rows = ((*bar_cells(bar), f"[{_colour(bar)}]{bar.verdict}") for bar in result.bars)
        console.print(_shown("Bars", ["", "measured", "bar", ""], rows))
    for note in result.notes:
        console.print(f"· {note}", markup=False)
    if result.failed:
        console.print(f"[red]failed:[/] {result.failed}")


def _colour(bar: Bar) -> str:
    if bar.missed:
        return "red"
    return "green" if bar.met else "yellow"


def _shown(title: str, titles: list[str], rows: Iterable[Iterable[str]]) -> Shown:
    shown = Shown(title=title, title_justify="left")
    for name in titles:
        shown.add_column(name, justify="right" if name and name != "bar" else "left")
    for row in rows:
        shown.add_row(*row)
    return shown
