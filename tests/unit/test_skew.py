"""A database whose clock is not ours is told, once a minute, never guessed."""

from __future__ import annotations

from structlog.testing import capture_logs

from streams.skew import ClockSkew

T = 1_700_000_000_000


def test_a_reading_between_question_and_answer_is_no_skew() -> None:
    skew = ClockSkew()
    with capture_logs() as lines:
        skew.observe(T + 40, T, T + 5_000)
    assert skew.ms == 0 and not lines


def test_skew_either_way_is_told_once_a_minute_and_when_it_is_over() -> None:
    for ahead in (3_000, -3_000):
        skew = ClockSkew()
        with capture_logs() as lines:
            for second in range(0, 130, 10):
                now = T + second * 1_000
                skew.observe(now + ahead, now, now)
            skew.observe(T + 200_000, T + 200_000, T + 200_000)
        assert [line["event"] for line in lines] == ["clock_skew"] * 3 + ["clock_skew_over"]
        assert lines[0]["skew_ms"] == ahead


def test_a_second_is_borne() -> None:
    skew = ClockSkew()
    with capture_logs() as lines:
        skew.observe(T + 1_000, T, T)
    assert not lines and skew.ms == 1_000
