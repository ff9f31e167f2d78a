"""When a window's own timeouts cost it an attempt."""

from __future__ import annotations

from streams.slow_windows import SPENDS_AFTER, SlowWindows

NONE: frozenset[str] = frozenset()


def test_the_fifth_timeout_while_others_succeed_spends() -> None:
    slow = SlowWindows()
    for _ in range(SPENDS_AFTER - 1):
        slow.answered(9, NONE)
        assert not slow.timed_out("w")
    slow.answered(9, NONE)
    assert slow.timed_out("w")
    # and the count starts over
    slow.answered(9, NONE)
    assert not slow.timed_out("w")


def test_nothing_is_spent_while_nobody_is_answered() -> None:
    slow = SlowWindows()
    slow.answered(1, NONE)
    assert not any(slow.timed_out("w") for _ in range(50))


def test_an_answer_forgets_what_was() -> None:
    slow = SlowWindows()
    for _ in range(SPENDS_AFTER * 3):
        slow.answered(1, NONE)
        assert not slow.timed_out("w")
        slow.answered(1, frozenset({"w"}))


def test_windows_are_counted_apart_and_not_without_bound() -> None:
    slow = SlowWindows()
    slow.answered(1, NONE)
    for n in range(12_000):
        assert not slow.timed_out(f"w{n}")
    assert len(slow._timeouts) <= 10_000
