"""What the parts are made of, as far as it is plain data."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import cast

import pytest
from rich.console import Console

from bench.__main__ import BROKEN_OFF, ELSEWHERE, KEPT, measured, parsed
from bench.backlog import Result
from bench.delays import Arrived, Measured
from bench.meter import Reading
from bench.paced import Stream
from bench.part import Part, Run, SharedServers
from bench.parts.main_path import BURSTS, LONE, SIZES, Size, bars_of
from bench.parts.scale import _on_paper
from bench.registry import PARTS
from bench.results import Line, Table, load


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)
def test_every_part_can_be_run(part) -> None:
    assert callable(importlib.import_module(part.module).run)


@pytest.mark.parametrize(
    "stream",
    [Stream(1, 30), Stream(100, 10), Stream(1_000, 10, 10), Stream(5_000, 10, 10), Stream(7, 3, 5)],
    ids=lambda one: f"{one.rate}/s by {one.per_window}",
)
def test_a_stream_fills_every_window_within_its_time(stream: Stream) -> None:
    turns = [stream.conversation(number) for number in range(stream.messages)]
    first = {one: number for number, one in reversed([*enumerate(turns)])}
    last = {one: number for number, one in enumerate(turns)}
    assert first.keys() == set(range(stream.windows))
    longest = max(last[one] - first[one] + 1 for one in first) / stream.rate
    assert longest < 1.0 or stream.rate * 0.6 < stream.per_window, "a burst is shorter than its window"


def test_each_contact_of_a_backlog_writes() -> None:
    assert [size.per_window for size in SIZES] == [10, 10, 1, 10]
    assert all(size.events // size.per_window >= size.contacts for size in SIZES)
    assert str(Size(1_000_000, 50_000)) == "1 M events of 50,000 contacts"


@pytest.mark.parametrize(
    ("size", "of_plain", "limits"),
    [
        (BURSTS, "plain-loop", [(20_000, False), (80_000, True), (0.6, False), (0.8, True)]),
        (LONE, "plain-loop", [(35_000, True), (0.8, True)]),
        (BURSTS, "", [(20_000, False), (80_000, True)]),
        (Size(20_000, 500), "plain-loop", []),
    ],
)
def test_bars_and_goals_of_the_main_path(size: Size, of_plain: str, limits: list[tuple[float, bool]]) -> None:
    lines = (
        Line(name="plain-loop", rounds=(100_000.0,)),
        Line(name="ours", rounds=(70_000.0,), of=of_plain),
    )
    found = [*bars_of(size, Table(title="", unit="events/s", lines=lines))]
    assert [(one.limit, one.goal) for one in found] == limits
    assert [*bars_of(size, Table(title="", unit="events/s", lines=lines[:1]))] == []


def test_lateness_counts_what_is_missing_early_or_twice() -> None:
    arrived = tuple(Arrived(10, late) for late in (-1.0, 5.0, 7.0))
    one = Measured(4, 1.0, arrived, 1, 8, 0.1, 50.0, sent_per_s=4.0)
    assert (one.missing, one.early, one.twice) == (2, 1, 1)
    assert one.late_ms(0.5) == 5.0 and one.late_ms(1.0) == 7.0
    assert not one.met


def test_more_cores_are_computed_from_what_the_machine_spent() -> None:
    one = Result("4 workers", 1_000, 100, 1.0, Reading(0.05, 0.1, 0, 300.0))
    table = _on_paper({4: [one]})
    assert table.line("2 cores").spread.median == 20_000  # 100 µs of the machine an event
    assert table.line("16 cores").also["workers at least"] == 8.0  # 50 µs of that are workers'


def test_sizes_are_those_of_the_command_line_then_of_the_run() -> None:
    full = Run(rounds=3, quick=False, sizes={"events": 7})
    assert (full.size("events", 100, 10), full.size("rows", 100, 10)) == (7, 100)
    assert Run(rounds=3, quick=True).size("rows", 100, 10) == 10
    assert Run(rounds=3, quick=True).size("rows", 100) == 100


def test_lines_are_all_asked_for_unless_some_are_named() -> None:
    assert Run(rounds=1, quick=False).wants("ours")
    assert not Run(rounds=1, quick=False, only=frozenset({"ours"})).wants("plain-loop")


LESS = (["--quick"], ["--rounds", "2"], ["--only", "ours"], ["--size", "events=9"], ["--wrap", "perf"])


@pytest.mark.parametrize("less", LESS, ids=lambda less: str(less[0]))
def test_less_than_a_whole_run_leaves_the_kept_figures_alone(
    less: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert parsed([*less, "growth"]).out == ELSEWHERE
    assert parsed([*less, "--out", str(tmp_path)]).out == tmp_path
    with pytest.raises(SystemExit):
        parsed([*less, "--out", str(KEPT)])
    assert f"{less[0]}" in capsys.readouterr().err
    assert parsed([*less, "--page", "--out", str(KEPT)]).out == KEPT, "drawing measures nothing"


def test_a_whole_run_is_kept() -> None:
    assert parsed([]).out == parsed(["sink", "--rounds", "3"]).out == KEPT
    assert dict(parsed(["--size", "most=10_000", "growth"]).size) == {"most": 10_000}


class _Broken:
    """A part that is ended by a signal in its second piece."""

    @staticmethod
    def run(run: Run) -> None:
        run.piece("first", lambda: run.found.notes.append("measured"))
        run.piece("second", lambda: sys.exit(143))


def test_what_a_part_has_found_outlives_a_signal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bench.parts.broken", cast(ModuleType, _Broken))
    part = Part("broken", "Broken", "", 1, "bench.parts.broken")
    with pytest.raises(SystemExit):
        measured(part, parsed(["--out", str(tmp_path)]), SharedServers(), Console(quiet=True))
    kept = load(tmp_path / "broken.json")
    assert (kept.notes, kept.failed) == (("measured",), BROKEN_OFF)


def test_a_piece_that_fails_is_told_and_the_next_ones_go_on() -> None:
    said: list[str] = []
    run = Run(rounds=1, quick=False, say=said.append)

    def fails() -> None:
        raise RuntimeError("no such broker\nand much more")

    run.piece("first", fails)
    run.piece("second", lambda: run.found.notes.append("measured"))
    assert run.found.failed == said == ["first: RuntimeError: no such broker"]
    assert run.found.notes == ["measured"]
