"""A shadow that runs, that is behind, and one that was forgotten."""

from __future__ import annotations

from ops.doctor.pipeline import Group
from ops.doctor.shadow import verdict
from streams.sweep import Position

NOW = Position(next=10, start=0, end=10, young=None)
BEHIND = Position(next=4, start=0, end=10, young=8)


def test_one_that_runs_is_well_and_one_that_is_behind_is_told() -> None:
    assert verdict(Group("stable", 1), [NOW]).level == "ok"
    late = verdict(Group("stable", 1), [NOW, BEHIND])
    assert late.level == "warn" and "6 events to go, 4 of them older" in late.found


def test_one_that_was_forgotten_is_told_with_the_command_that_cleans_up() -> None:
    told = verdict(Group("empty", 0), [NOW])
    assert told.level == "warn" and "rajada shadow clean" in told.advice
