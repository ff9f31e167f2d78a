"""When jobs are tried again."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.retry import (
    ADVICE_LEAST_MS,
    ADVICE_MOST_MS,
    CREDIT_FOR_MS,
    HOUR,
    MINUTE,
    advised_ms,
    backoff_ms,
    credit_delay_ms,
    heeding_ms,
    retry_after_ms,
    session_delay_ms,
)

TURN = "inbound_turn"
NOW = 1_764_500_000_000
FAILURES = st.integers(-3, 10**9)


def test_b168_the_backoff_of_a_turn_doubles_up_to_two_minutes() -> None:
    waits = [backoff_ms(TURN, failure) for failure in range(1, 8)]
    assert waits == [10_000, 20_000, 40_000, 80_000, 120_000, 120_000, 120_000]


def test_group_links_wait_by_a_minute_for_each_failure_up_to_eight() -> None:
    assert [backoff_ms("group_link_template", n) // MINUTE for n in (1, 2, 8, 9, 50)] == [1, 2, 8, 8, 8]
    assert backoff_ms("group_link_template", 3, group_link_delay_ms=500) == 1_500


@given(FAILURES, st.sampled_from([TURN, "group_link_template", "a kind of tomorrow"]))
def test_a_backoff_never_shrinks_and_has_a_bound(failure: int, kind: str) -> None:
    assert 10_000 <= backoff_ms(kind, failure) <= backoff_ms(kind, failure + 1) <= 8 * MINUTE


def test_b181_out_of_credit_looks_every_2_min_then_every_10_and_dies_after_6_h() -> None:
    now, waits = NOW, list[int]()
    while (wait := credit_delay_ms(NOW, now)) is not None:
        waits.append(wait)
        now += wait
    assert waits == [2 * MINUTE] * 15 + [10 * MINUTE] * 33
    assert now == NOW + 6 * HOUR


@given(st.integers(-HOUR, 7 * HOUR))
def test_a_job_without_credit_looks_the_last_time_at_six_hours(age: int) -> None:
    wait = credit_delay_ms(NOW, NOW + age)
    assert (wait is None) == (age >= CREDIT_FOR_MS)
    if wait is not None:
        assert 0 < wait <= 10 * MINUTE and age + wait <= CREDIT_FOR_MS


def test_a_session_is_looked_at_from_30_s_doubling_to_10_min() -> None:
    assert [session_delay_ms(looks) // 1_000 for looks in range(8)] == [30, 30, 60, 120, 240, 480, 600, 600]
    assert session_delay_ms(10**9) == 600_000


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("30", 30_000),
        (" 7 ", 7_000),
        ("1.5", 1_500),
        ("0", ADVICE_LEAST_MS),
        ("86400", ADVICE_MOST_MS),
        ("999999999999", ADVICE_MOST_MS),
        ("9" * 400, None),
        ("-5", None),
        ("", None),
        ("soon", None),
        ("NaN", None),
        ("inf", None),
        ("٣٠", 30_000),
        ("Fri, 99 Foo 2025 00:00:00 GMT", None),
        ("Fri, 31 Dec 9999 23:59:59 GMT", ADVICE_MOST_MS),
        ("Thu, 01 Jan 1970 00:00:00 GMT", ADVICE_LEAST_MS),
    ],
)
def test_retry_after_is_understood_within_bounds(value: str, wait: int | None) -> None:
    assert retry_after_ms(value, NOW) == wait


@given(
    st.integers(2, 3_000),
    st.sampled_from([UTC, timezone(timedelta(hours=-3)), None]),
)
def test_retry_after_as_a_date_of_any_zone(seconds: int, zone: timezone | None) -> None:
    moment = datetime.fromtimestamp(NOW / 1_000 + seconds, UTC)
    text = (
        format_datetime(moment.astimezone(zone)) if zone else moment.strftime("%a, %d %b %Y %H:%M:%S -0000")
    )
    assert retry_after_ms(text, NOW) == seconds * 1_000


@given(st.text(max_size=60))
def test_no_retry_after_raises_or_leaves_the_bounds(value: str) -> None:
    wait = retry_after_ms(value, NOW)
    assert wait is None or ADVICE_LEAST_MS <= wait <= ADVICE_MOST_MS


@given(st.floats() | st.integers(-(10**400), 10**400))
def test_advice_is_within_bounds_or_none(asked: float) -> None:
    wait = advised_ms(asked)
    assert wait is None or ADVICE_LEAST_MS <= wait <= ADVICE_MOST_MS


@pytest.mark.thorough
@given(FAILURES, st.none() | st.integers(ADVICE_LEAST_MS, ADVICE_MOST_MS))
def test_advice_is_taken_at_its_word_once_and_never_undercut(failure: int, advice: int | None) -> None:
    wait = heeding_ms(TURN, failure, advice)
    if advice is None or failure <= 1:
        assert wait == advice
    else:
        assert wait == max(advice, backoff_ms(TURN, failure))
