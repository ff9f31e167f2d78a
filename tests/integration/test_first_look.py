"""A worker's first look at the database's clock, on a real Postgres."""

from __future__ import annotations

import time

import pytest

from streams.first_look import WITHIN_S, database_ahead_ms
from streams.steady_clock import SteadyClock

HOUR_MS = 3_600_000


@pytest.mark.parametrize("wrong_ms", [HOUR_MS, -HOUR_MS])
def test_a_worker_that_starts_with_a_wrong_clock_has_the_true_time(postgres: str, wrong_ms: int) -> None:
    clock = SteadyClock(lambda: time.time_ns() + wrong_ms * 1_000_000)
    ahead_ms = database_ahead_ms(postgres, clock.now_ms)
    assert ahead_ms is not None
    clock.compare(ahead_ms)
    assert abs(clock.now_ms() - time.time() * 1_000) < 1_000


def test_one_that_is_right_stays_as_it_is(postgres: str) -> None:
    clock = SteadyClock()
    ahead_ms = database_ahead_ms(postgres, clock.now_ms)
    assert ahead_ms is not None
    clock.compare(ahead_ms)
    assert clock.apart_ms == 0.0


def test_a_database_that_is_away_holds_no_start_up() -> None:
    began = time.monotonic()
    assert database_ahead_ms("postgresql://127.0.0.1:1/none", lambda: 0) is None
    assert time.monotonic() - began < WITHIN_S + 1
