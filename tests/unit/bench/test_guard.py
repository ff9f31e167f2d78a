"""The guard against getting slower, on figures that are made up."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from bench import guard
from bench.results import Line, Table
from tests.unit.bench.made_up import result


def _run(ours: tuple[float, ...], plain: tuple[float, ...]):
    lines = (
        Line(name="plain-loop", rounds=(1.0,) * len(plain), cpu_us=plain),
        Line(name="ours", rounds=(1.0,) * len(ours), cpu_us=ours, of="plain-loop"),
    )
    return result(part="main-path", tables=(Table(title="Topic to jobs", unit="events/s", lines=lines),))


@pytest.fixture
def committed(tmp_path: Path) -> Path:
    file = tmp_path / "guard.json"
    file.write_bytes(msgspec.json.encode(guard.Committed(1.2, "2026-01-01T00:00:00+00:00")))
    return file


@pytest.mark.parametrize(("worse_by", "passes"), [(0.31, False), (0.29, True), (0.30, True), (-0.5, True)])
def test_the_ratio_may_get_thirty_per_cent_worse_and_no_more(
    committed: Path, worse_by: float, passes: bool
) -> None:
    ours = 50.0 * 1.2 * (1 + worse_by)
    run = _run((ours, ours, ours), (50.0, 50.0, 50.0))
    assert guard.judge([run], Console(quiet=True), file=committed) is passes


def test_a_single_round_that_was_disturbed_does_not_count(committed: Path) -> None:
    run = _run((60.0, 900.0, 61.0), (50.0, 50.0, 51.0))
    assert guard.judge([run], Console(quiet=True), file=committed)


def test_two_slow_rounds_of_three_do(committed: Path) -> None:
    run = _run((60.0, 90.0, 91.0), (50.0, 50.0, 51.0))
    assert not guard.judge([run], Console(quiet=True), file=committed)


def test_a_faster_plain_loop_alone_is_noticed_too(committed: Path) -> None:
    """The ratio is what is guarded: the loop does our decoding and decisions, and both share the machine."""
    run = _run((60.0, 60.0, 60.0), (38.0, 38.0, 38.0))
    assert not guard.judge([run], Console(quiet=True), file=committed)


def test_the_ratio_is_kept_when_asked(committed: Path) -> None:
    run = _run((100.0, 100.0, 100.0), (50.0, 50.0, 50.0))
    assert guard.judge([run], Console(quiet=True), commit=True, file=committed)
    assert msgspec.json.decode(committed.read_bytes(), type=guard.Committed).cpu_ratio == 2.0


def test_a_run_without_both_lines_says_nothing() -> None:
    assert guard.cpu_ratio([result(part="sink"), _run((), ())]) is None


def test_the_committed_ratio_can_be_read() -> None:
    assert msgspec.json.decode(guard.FILE.read_bytes(), type=guard.Committed).cpu_ratio > 0
