"""Our Unix time goes on through steps of the machine's clock, and follows what is right."""

from __future__ import annotations

from structlog.testing import capture_logs

from streams.contact import Window, WindowEvent
from streams.retry import backoff_ms
from streams.steady_clock import SteadyClock
from streams.windows import remaining_ms

T = 1_800_000_000_000
HOUR_MS = 3_600_000


class Machine:
    """A machine's two clocks, in ms."""

    def __init__(self, wrong: int = 0) -> None:
        self.wall, self.monotonic = T + wrong, 5_000
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


def test_who_starts_with_a_wrong_clock_begins_with_the_databases() -> None:
    for wrong in (HOUR_MS, -HOUR_MS):
        machine = Machine(wrong)
        with capture_logs() as lines:
            machine.clock.compare(float(-wrong + 3))
        assert machine.clock.now_ms() == T + 3
        assert [(line["event"], line["behind_ms"]) for line in lines] == [
            ("clock_wrong_at_the_start", -wrong + 3)
        ]
        machine.passes(500)
        machine.wall -= wrong  # it is set right: that is a step which we were ahead of
        assert machine.clock.now_ms() == T + 503


def test_a_clock_that_differs_by_no_step_at_the_start_is_our_own() -> None:
    for skew_ms in (0.0, 999.0, -999.0):
        machine = Machine()
        machine.clock.compare(skew_ms)
        assert machine.clock.now_ms() == machine.wall == T


def test_a_database_that_is_set_by_itself_changes_nothing() -> None:
    machine = Machine()
    machine.clock.compare(12.0)
    machine.clock.compare(float(HOUR_MS))
    assert machine.clock.now_ms() == machine.wall == T


def test_who_began_with_a_databases_wrong_time_comes_back_when_that_is_set_right() -> None:
    machine = Machine()
    machine.clock.compare(float(HOUR_MS))
    assert machine.clock.now_ms() == T + HOUR_MS, "so are the times of the events"
    machine.clock.compare(float(-HOUR_MS))
    assert machine.clock.now_ms() == machine.wall


def test_a_window_is_neither_cut_short_nor_made_longer_by_a_clock_that_is_set() -> None:
    for step in (HOUR_MS, -HOUR_MS):
        machine = Machine()
        event = WindowEvent("e", "m", "s", 0, T - 100)
        window = Window("c", [event], deadline_ms=T + 7_900, length_ms=8_000, max_events=100)
        machine.wall += step
        assert remaining_ms(window, machine.clock.now_ms()) == 7_900


def test_a_retry_is_due_when_it_was_whatever_the_clock_says_meanwhile() -> None:
    for step in (HOUR_MS, -HOUR_MS):
        machine = Machine()
        due_ms = T + backoff_ms("inbound_turn", 1)
        machine.wall += step
        machine.passes(9_999)
        assert machine.clock.now_ms() == due_ms - 1
