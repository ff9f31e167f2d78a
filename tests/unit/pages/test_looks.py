"""How the live page says things."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from web.pages import looks


def test_a_masked_phone_keeps_two_digits_at_either_end() -> None:
    assert looks.phone("+5511988887777", sees=False) == "+55•••••77"
    assert looks.phone("+5511988887777", sees=True) == "+5511988887777"
    assert looks.phone("123", sees=False) == "•••"
    assert looks.phone(None, sees=False) == ""


@given(st.sampled_from(["", "+"]), st.text("0123456789", min_size=8, max_size=15))
def test_a_masked_phone_never_shows_more_than_four_digits(plus: str, digits: str) -> None:
    text = plus + digits
    assert sum(letter.isdigit() for letter in looks.phone(text, sees=False)) <= 4


def test_spans_have_two_units_at_most() -> None:
    told = [looks.span(ms) for ms in (0, 850, 9_999, 12_000, 125_000, 3_600_000, 11_400_000, 400_000_000)]
    assert told == ["0.0 s", "0.8 s", "10.0 s", "12 s", "2 min 5 s", "1 h", "3 h 10 min", "4 d 15 h"]


def test_a_countdown_ends_as_due() -> None:
    assert looks.countdown(10_000, 4_000) == "6.0 s"
    assert looks.countdown(10_000, 10_000) == "due"


def test_sizes() -> None:
    assert [looks.size(count) for count in (0, 1023, 1024, 5 << 20, 3 << 40)] == [
        "0 B", "1023 B", "1.0 KiB", "5.0 MiB", "3.0 TiB",
    ]  # fmt: skip


@given(st.lists(st.integers(0, 10**9), max_size=40))
def test_bars_stay_within_the_chart(counts: list[int]) -> None:
    for bar in looks.bars(counts):
        assert 0 <= bar.y <= 40 and 0 <= bar.height <= 40 and abs(bar.y + bar.height - 40) < 0.1


def test_without_events_there_is_no_chart() -> None:
    assert looks.bars([]) == [] and looks.bars([0, 0]) == []


def test_what_is_counted_down_is_not_told_twice() -> None:
    from ops.pages.rows import untimed

    assert untimed("runs at 12:03:04.000, in 47.3 s") == "runs at 12:03:04.000"
    assert untimed("runs at 12:03:04.000, in 2 min 5 s (busy)") == "runs at 12:03:04.000 (busy)"
    assert untimed("is held, in 3 words") == "is held, in 3 words"
