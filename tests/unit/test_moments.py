"""Moments as people write and read them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from ops.moments import clock, day, local, moment, span

NOW = datetime(2026, 7, 24, 12, 0, tzinfo=UTC)
BRASILIA = timezone(timedelta(hours=-3))


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("30s", NOW - timedelta(seconds=30)),
        ("90m", NOW - timedelta(minutes=90)),
        (" 2h ", NOW - timedelta(hours=2)),
        ("3d", NOW - timedelta(days=3)),
        ("1w", NOW - timedelta(weeks=1)),
        ("2026-07-01T10:00:00Z", datetime(2026, 7, 1, 10, tzinfo=UTC)),
        ("2026-07-01T10:00-03:00", datetime(2026, 7, 1, 13, tzinfo=UTC)),
    ],
)
def test_spans_and_iso_times_are_understood(text: str, meant: datetime) -> None:
    assert moment(text, NOW) == meant


def test_a_time_without_an_offset_is_local() -> None:
    assert moment("2026-07-01", NOW) == datetime(2026, 7, 1).astimezone()


@pytest.mark.parametrize("text", ["", "soon", "3", "3y", "-2h", "2026-13-01", "1.5h"])
def test_anything_else_is_refused_with_what_is_understood(text: str) -> None:
    with pytest.raises(ValueError, match="3d"):
        moment(text, NOW)


def test_a_moment_is_shown_with_milliseconds_and_its_offset() -> None:
    at = local(1_784_894_400_045, BRASILIA)
    assert (day(at), clock(at)) == ("2026-07-24 (UTC-03:00)", "09:00:00.045")


@pytest.mark.parametrize(
    ("ms", "words"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1_000, "1.0 s"),
        (8_049, "8.0 s"),
        (60_000, "1 min"),
        (125_000, "2 min 5 s"),
        (3_600_000, "1 h"),
        (11_400_000, "3 h 10 min"),
        (4 * 86_400_000 + 3_600_000, "4 d 1 h"),
    ],
)
def test_spans_are_told_in_two_units_at_most(ms: float, words: str) -> None:
    assert span(ms) == words
