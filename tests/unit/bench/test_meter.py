"""What a round used, by the same account for every line."""

from __future__ import annotations

import pytest

from bench.backlog import PATIENCE_S, Result, patience_s
from bench.meter import Reading


def test_what_was_used_lies_between_two_readings_and_memory_is_the_most_there_ever_was() -> None:
    before, after = Reading(3.0, 100.0, 4_000, 80.0), Reading(3.5, 102.0, 9_000, 90.0)
    assert after.since(before) == Reading(0.5, 2.0, 5_000, 90.0)


def test_what_servers_do_for_a_line_is_in_its_machine_figure_alone() -> None:
    """Two lines of the same work: one does it itself, the other leaves half of it to Postgres."""
    alone = Result("alone", 1_000, 100, 1.0, Reading(0.10, 0.10, 0, 50.0))
    leaning = Result("leaning", 1_000, 100, 1.0, Reading(0.05, 0.10, 300_000, 50.0))
    assert (alone.cpu_us, leaning.cpu_us) == (100.0, 50.0)
    assert alone.machine_us == leaning.machine_us == 100.0
    assert (leaning.wal_bytes, leaning.busy) == (300.0, 0.1)


@pytest.mark.parametrize(("events", "at_least_per_s"), [(20_000, 50), (1_000_000, 150)])
def test_more_events_are_waited_for_longer(events: int, at_least_per_s: float) -> None:
    assert patience_s(0) == PATIENCE_S < patience_s(events)
    assert events / patience_s(events) > at_least_per_s * 0.99
