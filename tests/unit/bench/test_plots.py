"""Plots: drawn from figures, legible in light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from bench.results import Line, Table, save
from tests.unit.bench.made_up import result

pytestmark = pytest.mark.thorough  # matplotlib takes a second to come

BARS = Table(
    title="A & B",
    unit="events/s",
    lines=(Line(name="ours", rounds=(1.0, 2.0, 3.0)), Line(name="x", rounds=(0.0,))),
)
LINES = Table(
    title="Growth",
    unit="µs",
    chart="lines",
    x_title="rows",
    lines=tuple(Line(name=f"{x}", series=s, x=x, rounds=(1.0, 2.0)) for s in ("a", "b") for x in (10.0, 1e6)),
)
NONE = Table(title="No plot", unit="s", chart="none", lines=(Line(name="x", rounds=(1.0,)),))


@pytest.fixture
def plots() -> ModuleType:
    """The module; not imported above, since matplotlib takes a second that no other test should pay."""
    from bench import plots

    return plots


def _luminance(colour: str) -> float:
    parts = [int(colour[n : n + 2], 16) / 255 for n in (1, 3, 5)]
    linear = [one / 12.92 if one <= 0.03928 else ((one + 0.055) / 1.055) ** 2.4 for one in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_a_table_that_wants_a_plot_has_both_files_and_old_ones_go(plots: ModuleType, tmp_path: Path) -> None:
    save(result(tables=(BARS, NONE, LINES)), tmp_path)
    (tmp_path / "main-path-9.svg").write_text("old")
    plots.draw_all(tmp_path)
    assert sorted(one.name for one in tmp_path.iterdir()) == [
        "main-path-1.png", "main-path-1.svg", "main-path-3.png", "main-path-3.svg", "main-path.json",
    ]  # fmt: skip


def test_a_drawing_follows_the_readers_light_or_dark_and_is_told_by_its_title(
    plots: ModuleType, tmp_path: Path
) -> None:
    plots.draw(BARS, tmp_path / "p")
    svg = (tmp_path / "p.svg").read_text()
    root = ElementTree.fromstring(svg)
    assert root.findtext("{http://www.w3.org/2000/svg}title") == "A & B"
    style = root.findtext("{http://www.w3.org/2000/svg}style") or ""
    assert "prefers-color-scheme: dark" in style
    assert not re.search(f"(fill|stroke): ({plots.INK}|{plots.PAPER}|{plots.FAINT})", svg)


def test_the_same_figures_give_the_same_drawing(plots: ModuleType, tmp_path: Path) -> None:
    for name in ("one", "two"):
        plots.draw(LINES, tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


@pytest.mark.parametrize("light", [True, False], ids=["light", "dark"])
def test_lines_and_bars_stand_out_from_both_papers(plots: ModuleType, light: bool) -> None:
    paper = plots.PAPER if light else plots.DARK[plots.PAPER]
    """Three to one is what WCAG asks of graphics."""
    assert all(_contrast(one, paper) >= 3 for one in (*plots.COLOURS, plots.OURS, plots.OTHERS))


def test_text_stands_out_from_both_papers(plots: ModuleType) -> None:
    assert _contrast(plots.INK, plots.PAPER) >= 7
    assert _contrast(plots.DARK[plots.INK], plots.DARK[plots.PAPER]) >= 7
