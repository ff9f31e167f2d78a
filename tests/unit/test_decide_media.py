"""Stop 8: how long a window waits for media."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.media import CEILING_MS, wait_ms
from tests.unit.asking import NOW_MS


def wait(age_ms: float | None, *, late_ms: int = 0, skew_ms: int = 0, recheck_ms: int = 4_000) -> int:
    """How long, for a file of that age, in a window past its deadline by `late_ms`."""
    db_now_ms = float(NOW_MS + skew_ms)
    created_ms = None if age_ms is None else db_now_ms - age_ms
    return wait_ms(created_ms, db_now_ms, NOW_MS, NOW_MS - late_ms, recheck_ms)


@pytest.mark.parametrize(
    ("age_ms", "expected"),
    [
        (None, 0),
        (0, 4_000),
        (90_000, 4_000),  # b078
        (119_000, 1_000),  # looks at the ceiling, not beyond
        (119_999.5, 1),
        (120_000, 0),  # b077
        (math.inf, 0),
        (-math.inf, 4_000),
        (-3_600_000, 4_000),  # a file from the future: the window's own ceiling bounds it
    ],
)
def test_age(age_ms: float | None, expected: int) -> None:
    assert wait(age_ms) == expected


@pytest.mark.parametrize(
    ("late_ms", "expected"), [(0, 4_000), (117_000, 3_000), (119_999, 1), (120_000, 0), (10**9, 0)]
)
def test_never_beyond_120_s_after_the_windows_own_deadline(late_ms: int, expected: int) -> None:
    assert wait(1_000, late_ms=late_ms) == expected


def test_the_two_clocks_are_not_mixed() -> None:
    assert wait(1_000, skew_ms=500_000) == wait(1_000, skew_ms=-500_000) == 4_000


@settings(max_examples=50, deadline=None)
@given(
    age_ms=st.floats(allow_nan=False),
    late_ms=st.integers(-(10**6), 10**6),
    recheck_ms=st.integers(50, 10**6),
)
def test_waiting_ends(age_ms: float, late_ms: int, recheck_ms: int) -> None:
    left = wait(age_ms, late_ms=late_ms, recheck_ms=recheck_ms)
    assert 0 <= left <= recheck_ms
    if age_ms >= CEILING_MS or late_ms >= CEILING_MS:
        assert left == 0
