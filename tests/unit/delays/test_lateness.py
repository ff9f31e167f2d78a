"""The figures of lateness that `rajada status` shows, and the alarm when they are too large."""

from __future__ import annotations

from schemas.alert_texts import PLATFORM, delays_late
from schemas.codec import decode_outcome
from schemas.records import Outcome
from sinks.raised import conditions_of
from streams.delays.alarm import LateAlarm
from streams.delays.lateness import SPAN_S, Figures, Lateness


def test_nothing_came_due() -> None:
    assert Lateness().figures(0.0) == Figures(0, 0, 0, 0)


def test_median_tail_and_worst_of_the_last_minute() -> None:
    late = Lateness()
    late.add(9_000, 0.0)
    for ms in range(101):
        late.add(float(ms), 1.0)
    assert late.figures(1.0) == Figures(102, 50, 99 + 1, 9_000)
    assert late.figures(SPAN_S + 0.5) == Figures(101, 50, 99, 100)
    assert late.figures(SPAN_S + 1.5) == Figures(0, 0, 0, 0)


GOOD, LATE = Figures(10, 60, 500, 600), Figures(10, 60, 501, 600)


def words(*minutes: Figures) -> list[Outcome | None]:
    alarm = LateAlarm("me", "en")
    sends = [alarm.look(figures, n) for n, figures in enumerate(minutes)]
    return [None if send is None else decode_outcome(send.value or b"") for send in sends]


def test_one_late_minute_is_no_alarm() -> None:
    """br31: the bar is 500 ms; a restart makes one late minute."""
    assert words(GOOD, LATE, GOOD, LATE, GOOD, Figures(0, 0, 0, 0)) == [None] * 6


def test_br31_lateness_that_lasts_is_told_each_minute_until_it_is_over() -> None:
    told = words(LATE, LATE, LATE, GOOD, GOOD)
    assert told[0] is None and told[4] is None
    assert told[1] is not None and told[2] is not None and told[3] is not None
    assert told[1].organization_id == PLATFORM
    assert told[1].alert == told[2].alert == delays_late(501, "en")
    assert told[3].alert is None
    lasting, over = conditions_of([told[1], told[2]])
    assert [row.id for row in lasting] == ["delays_late@me"] and not over
    assert conditions_of([told[1], told[3]]) == ([], ["delays_late@me"])
