"""Kafka's time as the forwarder knows it: never ahead of Kafka's clock, whatever ours do."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.delays.broker_clock import BrokerClock

T0 = 1_760_000_000_000


def test_nothing_is_known_before_the_first_reading() -> None:
    clock = BrokerClock()
    assert clock.now_ms(1.0) is None
    assert clock.age_s(1.0) is None


def test_time_goes_on_from_the_moment_of_the_answer() -> None:
    clock = BrokerClock()
    clock.observe(T0, 10.0, 10.5)
    assert clock.now_ms(10.5) == T0
    assert clock.now_ms(12.5) == pytest.approx(T0 + 2_000, abs=1.1)
    assert clock.age_s(12.5) == 2.0


def test_a_slow_reading_does_not_spoil_a_quick_one() -> None:
    clock = BrokerClock()
    clock.observe(T0, 10.0, 10.001)
    clock.observe(T0 + 1_000, 11.0, 11.9)
    assert clock.now_ms(11.9) == pytest.approx(T0 + 1_899, abs=2)


def test_a_quick_reading_mends_a_slow_one() -> None:
    clock = BrokerClock()
    clock.observe(T0, 10.0, 10.9)
    assert clock.now_ms(11.0) == pytest.approx(T0 + 100, abs=1)
    clock.observe(T0 + 1_000, 11.0, 11.001)
    assert clock.now_ms(11.001) == T0 + 1_000


@pytest.mark.parametrize("by_ms", [-3_600_000, -2_000, -100, 100, 2_000, 3_600_000])
def test_a_clock_that_was_set_is_believed_at_the_next_reading(by_ms: int) -> None:
    clock = BrokerClock()
    clock.observe(T0, 10.0, 10.002)
    clock.observe(T0 + 10_000 + by_ms, 20.0, 20.002)
    assert clock.now_ms(20.002) == pytest.approx(T0 + 10_000 + by_ms, abs=3)


@pytest.mark.thorough
@given(
    # when each reading is asked, on its way to the append, and on its way back, in ms
    readings=st.lists(
        st.tuples(st.integers(0, 20_000), st.integers(0, 2_000), st.integers(0, 2_000)),
        min_size=1,
        max_size=8,
    ),
    looked=st.lists(st.integers(0, 30_000), max_size=8),
    faster=st.floats(0.99995, 1.00045),
)
def test_what_it_says_has_passed_on_kafkas_clock(
    readings: list[tuple[int, int, int]], looked: list[int], faster: float
) -> None:
    """However slow the answers are, and though our clock runs a little faster or slower than Kafka's."""
    clock = BrokerClock()
    true_ms = 0

    def ours_s() -> float:
        return true_ms * faster / 1000

    looks = iter(looked)
    for pause, there, back in readings:
        true_ms += pause
        asked_s = ours_s()
        true_ms += there
        append_ms = T0 + true_ms
        true_ms += back
        clock.observe(append_ms, asked_s, ours_s())
        true_ms += next(looks, 0)
        now_ms = clock.now_ms(ours_s())
        assert now_ms is not None
        assert now_ms <= T0 + true_ms + 1  # a reading is cut to whole ms, so is the truth here
        assert now_ms >= T0 + true_ms - 4_000 - 50_000 * 0.001
