"""The ladder of delay topics: every delay is met, never early, in few hops (spec/jobs.md, Delay topics)."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.dead import Header
from schemas.topic_names import JOBS
from streams.due import (
    DELAY_TOPICS,
    DUE_AT,
    ORIGINAL_TIMESTAMP,
    TIERS_MS,
    delayed_record,
    first_tier,
    headers_for,
    next_hop,
    read_due,
)

T0 = 1_760_000_000_000
DAY_MS = 24 * 3_600_000
SHORTEST_MS = 100
STEPS = 3 + 5 + 5 + 9 + 5 + 9 + 9 + 1
"""Hops below a day at most: six hours three times, an hour five times, …, a tenth of a second nine times,
and once more for what is left below that."""

delays = st.one_of(
    st.integers(0, 30 * DAY_MS),
    st.integers(0, 3_000),
    st.sampled_from(list(TIERS_MS.values())).flatmap(lambda tier: st.integers(tier - 1, tier + 1)),
    st.integers(30 * DAY_MS, 400 * DAY_MS),
)
name_of_other = st.text(max_size=12).filter(lambda name: name not in (DUE_AT, ORIGINAL_TIMESTAMP))
other_headers = st.lists(st.tuples(name_of_other, st.none() | st.binary(max_size=20)), max_size=5)


def way(due_ms: int, now_ms: int, late_ms: Iterable[int] = ()) -> tuple[list[str], int]:
    """The topics that a record goes through until it is in `dispatch.jobs`, and when it arrives there.

    Each hop takes the tier's time and as much longer as `late_ms` tells, 0 when that is exhausted.
    """
    late = iter(late_ms)
    topics = [first_tier(due_ms, now_ms)]
    while topics[-1] != JOBS:
        now_ms += DELAY_TOPICS[topics[-1]] + next(late, 0)
        topics.append(next_hop(due_ms, now_ms))
    return topics, now_ms


@pytest.mark.parametrize(
    ("left_ms", "tier"),
    [
        (1, "100ms"),
        (99, "100ms"),
        (100, "100ms"),
        (999, "100ms"),
        (1_000, "1s"),
        (9_999, "1s"),
        (10_000, "10s"),
        (59_999, "10s"),
        (60_000, "1m"),
        (600_000, "10m"),
        (3_599_999, "10m"),
        (3_600_000, "1h"),
        (6 * 3_600_000 - 1, "1h"),
        (6 * 3_600_000, "6h"),
        (DAY_MS - 1, "6h"),
        (DAY_MS, "1d"),
        (60 * DAY_MS, "1d"),
    ],
)
def test_a_record_enters_the_longest_delay_that_fits(left_ms: int, tier: str) -> None:
    assert first_tier(T0 + left_ms, T0) == f"dispatch.delay.{tier}"


@pytest.mark.parametrize("past_ms", [0, 1, DAY_MS])
def test_what_is_due_goes_to_the_jobs(past_ms: int) -> None:
    assert first_tier(T0 - past_ms, T0) == JOBS
    assert next_hop(T0 - past_ms, T0) == JOBS


@given(delays)
def test_any_delay_is_met_never_early_and_at_most_the_shortest_delay_late(delay_ms: int) -> None:
    _, arrives_ms = way(T0 + delay_ms, T0)
    assert 0 <= arrives_ms - (T0 + delay_ms) < SHORTEST_MS


@given(delays, st.lists(st.integers(0, 5_000), max_size=100))
def test_late_hops_are_not_added_up(delay_ms: int, late_ms: list[int]) -> None:
    """What one hop loses the next ones make up: only a hop that began too late for that can end late."""
    _, arrives_ms = way(T0 + delay_ms, T0, late_ms)
    assert 0 <= arrives_ms - (T0 + delay_ms) < SHORTEST_MS + max(late_ms, default=0)


@given(delays, st.lists(st.integers(0, 5_000), max_size=100))
def test_the_way_leads_downwards_in_a_bounded_number_of_hops(delay_ms: int, late_ms: list[int]) -> None:
    topics, _ = way(T0 + delay_ms, T0, late_ms)
    waits = [DELAY_TOPICS[topic] for topic in topics[:-1]]
    assert waits == sorted(waits, reverse=True)
    assert len(waits) <= delay_ms // DAY_MS + STEPS


@given(st.integers(1, 30 * DAY_MS))
def test_no_delay_is_longer_than_what_is_left_but_the_shortest(left_ms: int) -> None:
    wait_ms = DELAY_TOPICS[first_tier(T0 + left_ms, T0)]
    assert wait_ms <= left_ms or wait_ms == SHORTEST_MS


@pytest.mark.thorough
@given(other_headers, delays, st.integers(0, T0))
def test_our_headers_are_written_once_and_the_others_stay_as_they_are(
    headers: list[Header], delay_ms: int, timestamp_ms: int
) -> None:
    written = headers_for(T0 + delay_ms, headers, timestamp_ms)
    assert written[:-2] == headers
    assert written[-2:] == [
        (DUE_AT, str(T0 + delay_ms).encode()),
        (ORIGINAL_TIMESTAMP, str(timestamp_ms).encode()),
    ]
    assert read_due(written) == T0 + delay_ms


@pytest.mark.thorough
@given(other_headers, delays, delays)
def test_a_record_that_is_delayed_again_gets_a_new_due_time_and_keeps_its_first_timestamp(
    headers: list[Header], first_ms: int, second_ms: int
) -> None:
    once = headers_for(T0 + first_ms, headers, T0)
    twice = headers_for(T0 + second_ms, once, T0 + 77)
    assert twice == headers_for(T0 + second_ms, headers, T0)
    assert len(twice) == len(headers) + 2


def test_a_first_timestamp_that_cannot_be_read_is_replaced() -> None:
    assert headers_for(T0, [(ORIGINAL_TIMESTAMP, b"yesterday")], 5)[-1] == (ORIGINAL_TIMESTAMP, b"5")


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b" ",
        b"soon",
        b"-1",
        b"+5",
        b" 1760000000000",
        b"1760000000000\n",
        b"1_760_000_000_000",
        b"1760000000000.0",
        b"1.76e12",
        b"0x10",
        "١٢٣".encode(),
        b"\xff",
        b"1760000000000000000",  # ns
        b"9" * 5_000,
    ],
)
def test_a_due_time_that_is_no_decimal_number_of_ms_is_none(value: bytes | None) -> None:
    assert read_due([("x", b"1"), (DUE_AT, value)]) is None
    assert read_due([(DUE_AT, b"1760000000000"), (DUE_AT, value)]) is None


def test_without_the_header_there_is_no_due_time() -> None:
    assert read_due([]) is None
    assert read_due([("Due-At", b"1"), ("due", b"2")]) is None


def test_of_several_due_times_the_latest_counts() -> None:
    assert read_due([(DUE_AT, b"5"), (DUE_AT, b"7"), (DUE_AT, b"6")]) == 7


@given(st.binary(max_size=24))
def test_reading_a_due_time_never_fails(value: bytes) -> None:
    found = read_due([(DUE_AT, value)])
    assert found is None or 0 <= found < 10**15


def test_a_delayed_record_is_put_together_in_one_call() -> None:
    topic, item = delayed_record(
        b"key", b"value", [("a", b"b")], due_ms=T0 + 10_000, now_ms=T0, original_timestamp_ms=7
    )
    assert topic == "dispatch.delay.10s"
    assert item == (b"key", b"value", -1, headers_for(T0 + 10_000, [("a", b"b")], 7))


def test_the_delays_rise() -> None:
    assert list(TIERS_MS.values()) == sorted(set(TIERS_MS.values()))
