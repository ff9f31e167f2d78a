"""The watchdog tells of a standstill for as long as it lasts."""

from __future__ import annotations

from streams.transport.watchdog import Watchdog


def test_a_standstill_is_told_after_the_patience_until_it_moves():
    watchdog = Watchdog(patience=10)
    assert watchdog.stuck(0, {"p": (5, 3)}) == {}
    assert watchdog.stuck(9, {"p": (5, 7)}) == {}
    assert watchdog.stuck(10, {"p": (5, 7)}) == {"p": 10}
    assert watchdog.stuck(50, {"p": (5, 7)}) == {"p": 50}
    assert watchdog.stuck(51, {"p": (6, 7)}) == {}
    assert watchdog.stuck(61, {"p": (6, 7)}) == {"p": 10}


def test_progress_idleness_and_a_new_assignment_begin_anew():
    watchdog = Watchdog(patience=10)
    watchdog.stuck(0, {"moves": (5, 3), "idle": (5, 0), "lost": (5, 3)})
    watchdog.stuck(8, {"moves": (6, 3), "idle": (5, 0)})
    assert watchdog.stuck(16, {"moves": (6, 3), "idle": (5, 1), "lost": (5, 3)}) == {}
    assert watchdog.stuck(18, {"moves": (6, 3), "idle": (5, 1), "lost": (5, 3)}) == {"idle": 10, "moves": 10}
