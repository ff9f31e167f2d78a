"""Plots of a part's tables: an SVG that follows the reader's light or dark, and a PNG on white.

Needs matplotlib (`pip install 'rajada[bench]'`). The same figures give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from bench.results import Line, Result, Table, load, number

INK, PAPER, FAINT = "#1f2328", "#ffffff", "#d5d9de"
DARK = {INK: "#e2e5e9", PAPER: "#1f222a", FAINT: "#474d57"}
"""What becomes of them where the reader's system is dark. The coloured ones have contrast on both papers."""
OURS, OTHERS = "#0f8a7e", "#8a8f98"
COLOURS = ("#0f8a7e", "#c2571a", "#7a6ff0", "#b0459c", "#8a8f98")
MARKS = ("o", "s", "^", "D", "v")

matplotlib.use("Agg")
matplotlib.rcParams.update(
    {
        "svg.fonttype": "none",
        "svg.hashsalt": "rajada",
        "font.family": "sans-serif",
        "font.size": 10,
        "text.color": INK,
        "axes.labelcolor": INK,
        "axes.edgecolor": FAINT,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "xtick.color": INK,
        "ytick.color": INK,
        "figure.facecolor": PAPER,
        "axes.facecolor": PAPER,
        "savefig.facecolor": PAPER,
        "grid.color": FAINT,
    }
)


def names(result: Result) -> list[tuple[Table, str]]:
    """The tables that have a plot, with its file's name without ending."""
    return [
        (table, f"{result.part}-{number}")
        for number, table in enumerate(result.tables, 1)
        if table.chart != "none" and table.lines
    ]


def draw_all(folder: Path) -> None:
    """Plots of every part whose figures lie there; those of tables that are gone are removed."""
    for file in sorted(folder.glob("*.json")):
        result = load(file)
        for old in folder.glob(f"{result.part}-[0-9]*.*"):
            old.unlink()
        for table, name in names(result):
            draw(table, folder / name)


def draw(table: Table, stem: Path) -> None:
    """Write `stem`.svg and `stem`.png."""
    bars = table.chart == "bars"
    figure = Figure(figsize=(8, 1.1 + 0.42 * len(table.lines) if bars else 4.2), layout="constrained")
    axes = figure.add_subplot()
    (_bars if bars else _lines)(axes, table)
    axes.set_title(table.title, loc="left", fontsize=11, fontweight="bold")
    figure.savefig(stem.with_suffix(".png"), dpi=150, metadata={"Software": None})
    drawing = stem.with_suffix(".svg")
    figure.savefig(drawing, metadata={"Date": None})
    drawing.write_text(_both(drawing.read_text(encoding="utf-8"), table.title), encoding="utf-8")


def _bars(axes: Axes, table: Table) -> None:
    """Medians as bars, with whiskers from the least to the most round."""
    places = range(len(table.lines))
    spreads = [one.spread for one in table.lines]
    colours = [OURS if _is_ours(one) else OTHERS for one in table.lines]
    whiskers = (
        [max(0.0, one.median - one.least) for one in spreads],
        [max(0.0, one.most - one.median) for one in spreads],
    )
    medians = [one.median for one in spreads]
    axes.barh(places, medians, 0.62, color=colours, xerr=whiskers, ecolor=INK, capsize=3)
    axes.set_yticks(places, [one.name for one in table.lines])
    axes.invert_yaxis()
    axes.set_xlabel(table.unit)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.grid(axis="x", linewidth=0.6)
    axes.set_axisbelow(True)
    furthest = max((one.most for one in spreads), default=0.0) or 1.0
    axes.set_xlim(min(0.0, min(one.least for one in spreads)), furthest * 1.16)
    for place, one in zip(places, spreads, strict=True):
        axes.annotate(number(one.median), (one.most, place), (5, 0), textcoords="offset points", va="center")


def _is_ours(line: Line) -> bool:
    return line.name.startswith(("ours", "executor", "sink")) or (not line.of and line.series == "ours")


def _lines(axes: Axes, table: Table) -> None:
    """A line a series, with the rounds' range as its whiskers; x in powers of ten."""
    series: dict[str, list[Line]] = {}
    for line in table.lines:
        if line.x is not None:
            series.setdefault(line.series or table.unit, []).append(line)
    for place, (name, points) in enumerate(series.items()):
        _one_line(axes, name, points, COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)])
    ticks = sorted({line.x for line in table.lines if line.x is not None})
    if min(ticks, default=1) > 0 and max(ticks, default=1) / min(ticks, default=1) > 20:
        axes.set_xscale("log")
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [_short(one) for one in ticks])
    axes.set_xlabel(table.x_title)
    axes.set_ylabel(table.unit)
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
    axes.grid(axis="y", linewidth=0.6)
    if len(series) > 1:
        axes.legend(frameon=False)


def _one_line(axes: Axes, name: str, points: Sequence[Line], colour: str, mark: str) -> None:
    ranked = sorted(points, key=lambda one: one.x or 0.0)
    spreads = [one.spread for one in ranked]
    axes.errorbar(
        [one.x or 0.0 for one in ranked],
        [one.median for one in spreads],
        yerr=(
            [max(0.0, one.median - one.least) for one in spreads],
            [max(0.0, one.most - one.median) for one in spreads],
        ),
        color=colour,
        marker=mark,
        capsize=3,
        label=name,
    )


def _short(value: float) -> str:
    for size, letter in ((1_000_000, " M"), (1_000, "k")):
        if value >= size:
            return f"{number(value / size)}{letter}"
    return number(value)


def _both(svg: str, title: str) -> str:
    """Its ink and paper follow the reader's preference; a name for those who listen."""
    style = "".join(f"--{_called(light)}:{light};" for light in DARK)
    dark = "".join(f"--{_called(light)}:{one};" for light, one in DARK.items())
    for light in DARK:
        svg = re.sub(f"(fill|stroke): {light}", rf"\1: var(--{_called(light)})", svg)
    # What has no fill of its own (text, mostly) is black by SVG's rules.
    head = (
        f"<title>{title.replace('&', '&amp;').replace('<', '&lt;')}</title><style>:root{{{style}}}"
        f"@media (prefers-color-scheme: dark){{:root{{{dark}}}}}text{{fill:var(--ink)}}</style>"
    )
    at = svg.index(">", svg.index("<svg ")) + 1
    return svg[:at] + head + svg[at:]


def _called(colour: str) -> str:
    return {INK: "ink", PAPER: "paper", FAINT: "faint"}[colour]
