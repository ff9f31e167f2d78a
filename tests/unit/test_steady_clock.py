"""Our Unix time goes on through steps of the machine's clock, and follows what is right."""

from __future__ import annotations

from structlog.testing import capture_logs

from streams.steady_clock import SteadyClock

T = 1_800_000_000_000
HOUR_MS = 3_600_000


class Machine:
    """A machine's two clocks, in ms."""

    def __init__(self) -> None:
        self.wall, self.monotonic = T, 5_000
        self.clock = SteadyClock(lambda: self.wall * 1_000_000, lambda: self.monotonic * 1_000_000)

    def passes(self, ms: int, drift: int = 0) -> None:
        self.wall += ms + drift
        self.monotonic += ms


def test_it_is_the_wall_clock_as_long_as_nobody_sets_that() -> None:
    machine = Machine()
    for _ in range(10):
        machine.passes(700)
        assert machine.clock.now_ms() == machine.wall


def test_small_corrections_are_followed() -> None:
    machine = Machine()
    for _ in range(100):
        machine.passes(10_000, drift=5)
        assert machine.clock.now_ms() == machine.wall


def test_a_step_either_way_moves_nothing_and_is_told() -> None:
    for step in (HOUR_MS, -HOUR_MS):
        machine = Machine()
        machine.wall += step
        machine.passes(200)
        with capture_logs() as lines:
            assert machine.clock.now_ms() == T + 200
            assert machine.clock.now_ms() == T + 200
        assert [(line["event"], line["by_ms"]) for line in lines] == [("clock_stepped", step)]


def test_corrections_are_followed_after_a_step_too_and_a_step_back_ends_it() -> None:
    machine = Machine()
    machine.wall += HOUR_MS
    machine.clock.now_ms()
    machine.passes(1_000, drift=7)
    assert machine.clock.now_ms() == T + 1_007
    machine.wall -= HOUR_MS
    assert machine.clock.now_ms() == T + 1_007 == machine.wall


def test_a_step_that_the_database_agrees_with_is_taken_over() -> None:
    machine = Machine()
    machine.wall += HOUR_MS  # it was wrong until now: it had slept, or booted with a flat battery
    machine.clock.now_ms()
    machine.clock.compare(float(HOUR_MS - 12))
    assert machine.clock.now_ms() == machine.wall


def test_a_step_that_the_database_does_not_know_of_is_not() -> None:
    machine = Machine()
    machine.wall += HOUR_MS
    machine.clock.now_ms()
    for skew_ms in (0.0, 15.0, -900.0):
        machine.clock.compare(skew_ms)
        assert machine.clock.now_ms() == T


def test_a_database_that_is_wrong_by_itself_changes_nothing() -> None:
    machine = Machine()
    machine.clock.compare(float(HOUR_MS))
    assert machine.clock.now_ms() == machine.wall == T
