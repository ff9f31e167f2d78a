"""Figures, and what is made of them."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from bench import page, tell
from bench.peers.method import PEERS_METHOD
from bench.registry import PARTS, chosen
from bench.results import Bar, Line, Spread, Table, load, number, save
from tests.unit.bench.made_up import result

TABLE = Table(
    title="Topic to jobs",
    unit="events/s",
    lines=(
        Line(name="plain-loop", rounds=(100.0, 200.0, 400.0)),
        Line(
            name="ours",
            rounds=(50.0, 180.0, 300.0),
            of="plain-loop",
            cpu_us=(3.0, 1.0, 2.0),
            also={"p50 ms": 7.0},
            note="a word | more",
        ),
        Line(name="a peer", rounds=(5.0,), of="missing"),
    ),
)


def test_a_ratio_is_taken_round_by_round() -> None:
    assert TABLE.ratio(TABLE.line("ours")) == Spread(0.5, 0.75, 0.9)


def test_there_is_no_ratio_to_a_line_that_was_not_measured() -> None:
    assert TABLE.ratio(TABLE.line("a peer")) is None
    assert TABLE.ratio(TABLE.line("plain-loop")) is None


@pytest.mark.parametrize(
    ("bar", "met"),
    [
        (Bar("", 0.6, "≥", 0.6), True),
        (Bar("", 0.59, "≥", 0.6), False),
        (Bar("", 150, "≤", 150), True),
        (Bar("", 151, "≤", 150), False),
        (Bar("", 1, "=", 0), False),
        (Bar("", 0, "=", 0), True),
    ],
)
def test_a_bar_is_met_at_its_limit(bar: Bar, met: bool) -> None:
    assert bar.met is met


@pytest.mark.parametrize(
    ("bar", "missed", "verdict"),
    [
        (Bar("", 1, "≥", 1), False, "met"),
        (Bar("", 0, "≥", 1), True, "missed"),
        (Bar("", 1, "≥", 1, goal=True), False, "goal reached"),
        (Bar("", 0, "≥", 1, goal=True), False, "goal ahead"),
    ],
)
def test_a_goal_is_told_and_never_missed(bar: Bar, missed: bool, verdict: str) -> None:
    assert (bar.missed, bar.verdict) == (missed, verdict)


def test_a_goal_stands_beside_the_bars_on_the_page_and_on_the_terminal() -> None:
    found = result(bars=(Bar("rate", 1, "≥", 2, goal=True),))
    assert "| rate | 1 | ≥ 2 | goal ahead |" in page.text({"main-path": found}, Path())
    shown = StringIO()
    tell.tell(found, Console(file=shown, width=120))
    assert "goal ahead" in shown.getvalue()


def test_numbers_have_three_figures_or_no_fraction() -> None:
    assert [number(one) for one in (0.05, 0.666, 1.234, 12.34, 123.4, 12_345.6, 20_000, 0)] == [
        "0.05", "0.67", "1.23", "12.3", "123", "12,346", "20,000", "0",
    ]  # fmt: skip


def test_what_is_kept_is_what_was_found(tmp_path: Path) -> None:
    kept = result(tables=(TABLE,), bars=(Bar("rate", 1.0, "≥", 2.0),), notes=("less",), failed="oh")
    assert load(save(kept, tmp_path)) == kept


def test_every_line_has_a_cell_for_every_column() -> None:
    assert {len(list(tell.cells(TABLE, line))) for line in TABLE.lines} == {len(tell.columns(TABLE))}


def test_the_page_tells_parts_that_were_measured_with_date_load_and_machine_and_those_that_were_not() -> None:
    told = page.text(
        {"main-path": result(tables=(TABLE,), bars=(Bar("rate", 1, "≥", 2),))}, Path("benchmarks")
    )
    assert "2026-01-02 03:04 UTC" in told and "load 0.5 before and 1.5 after on 2 cores" in told
    assert "A processor" in told and "benchmarks/main-path-1.svg" in told
    assert "| rate | 1 | ≥ 2 | **missed** | [The main path](#the-main-path) |" in told
    assert "0.50 / 0.75 / 0.90 of plain-loop" in told and "a word \\| more" in told
    for part in PARTS:
        assert f"## {part.title}" in told
        assert (f"`python -m bench {part.name}` takes" in told) is (part.name != "main-path")


def test_the_page_tells_how_peers_were_measured_as_it_was_then() -> None:
    then = msgspec.structs.replace(result(), peers_method="## The others\n\nBy hand.\n")
    assert "By hand." in page.text({"main-path": then, "sink": result(part="sink")}, Path())
    assert PEERS_METHOD in page.text({"sink": result(part="sink")}, Path())


def test_the_page_says_what_failed_and_keeps_what_was_found_before() -> None:
    told = page.text(
        {"sink": result(part="sink", tables=(TABLE,), failed="Wrong: all of it", notes=("half",))}, Path()
    )
    assert "`Wrong: all of it`" in told and "- half" in told and "| ours |" in told


def test_parts_are_chosen_by_name_in_their_order() -> None:
    assert [one.name for one in chosen(["sink", "main-path"], quick=False)] == ["main-path", "sink"]
    assert chosen([], quick=False) == list(PARTS)
    assert all(one.quick_s for one in chosen([], quick=True))
    with pytest.raises(KeyError, match="nothing"):
        chosen(["nothing"], quick=False)


def test_the_quick_run_takes_less_than_three_minutes() -> None:
    assert sum(one.quick_s or 0.0 for one in PARTS) <= 170
