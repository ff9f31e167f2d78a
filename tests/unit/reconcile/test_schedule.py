"""When a schedule ticks and when its ticks are due, beside an oracle that walks through the minutes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, pairwise, takewhile
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.reconcile.schedule import JITTER_SHARE, Schedule, WrongSchedule

SEED = UUID("6b1f5c0e-0d0a-4a35-8d0c-0c6f5e1d2a3b")
SAO_PAULO, LONDON = "America/Sao_Paulo", "Europe/London"

CHANGES = {
    "sao_paulo_summer_begins_at_midnight": (SAO_PAULO, datetime(2018, 11, 4, 3, tzinfo=UTC)),
    "sao_paulo_summer_ends_at_midnight": (SAO_PAULO, datetime(2019, 2, 17, 2, tzinfo=UTC)),
    "london_summer_begins": (LONDON, datetime(2024, 3, 31, 1, tzinfo=UTC)),
    "london_summer_ends": (LONDON, datetime(2024, 10, 27, 1, tzinfo=UTC)),
}
"""The instant at which clocks were put forward or back."""

INSTANTS = st.datetimes(
    datetime(2017, 1, 1), datetime(2026, 1, 1), timezones=st.just(UTC), allow_imaginary=False
)


def schedule(cron: str = "*/5 * * * *", zone: str = SAO_PAULO, jitter_s: float = 0.0) -> Schedule:
    return Schedule.parse("x", cron, zone, catch_up_s=3_600, jitter_s=jitter_s)


def ticks(of: Schedule, after: datetime, until: datetime) -> list[datetime]:
    return list(takewhile(lambda tick: tick <= until, of.ticks(after)))


def every_five_minutes(zone: str, after: datetime, until: datetime) -> list[datetime]:
    """Minute by minute in UTC: those whose local minute is a multiple of five."""
    first = after.replace(second=0, microsecond=0)
    minutes = (first + timedelta(minutes=n) for n in range(int((until - first) / timedelta(minutes=1)) + 1))
    return [one for one in minutes if one > after and one.astimezone(ZoneInfo(zone)).minute % 5 == 0]


@pytest.mark.parametrize(("zone", "change"), CHANGES.values(), ids=CHANGES)
def test_on_a_day_when_clocks_change_it_ticks_every_five_minutes_all_the_same(
    zone: str, change: datetime
) -> None:
    after, until = change - timedelta(hours=30), change + timedelta(hours=30)
    found = ticks(schedule(zone=zone), after, until)
    assert found == every_five_minutes(zone, after, until)
    assert len(found) == 60 * 12, "no tick is lost and none comes twice"
    assert {later - earlier for earlier, later in pairwise(found)} == {timedelta(minutes=5)}


@pytest.mark.parametrize(("zone", "change"), CHANGES.values(), ids=CHANGES)
@pytest.mark.parametrize("cron", ["0 0 * * *", "30 1 * * *", "30 23 * * *"])
def test_a_daily_tick_comes_once_a_day_though_its_hour_is_missing_or_comes_twice(
    cron: str, zone: str, change: datetime
) -> None:
    of = schedule(cron, zone)
    noon = change.replace(hour=15)
    after, until = noon - timedelta(days=4), noon + timedelta(days=4)
    found = ticks(of, after, until)
    days = [tick.astimezone(ZoneInfo(zone)).date() for tick in found]
    assert len(days) == len(set(days)) == 8
    # and backwards it finds the same
    again = [of.newest_until(until)]
    while again[-1] > found[0]:
        again.append(of.newest_until(again[-1] - timedelta(seconds=1)))
    assert again[::-1] == found


@given(INSTANTS, st.sampled_from([SAO_PAULO, LONDON, "UTC", "Asia/Kathmandu"]))
def test_the_newest_tick_is_the_last_that_is_not_later(instant: datetime, zone: str) -> None:
    of = schedule(zone=zone)
    newest = of.newest_until(instant)
    assert newest <= instant < of.next_after(newest)
    assert of.next_after(newest) == of.next_after(instant)
    assert of.newest_until(newest) == newest, "a tick's own instant belongs to it"


@settings(max_examples=40)
@given(INSTANTS, st.floats(0, 10_000), st.sampled_from(["*/5 * * * *", "*/10 * * * * *", "0 3 * * *"]))
def test_a_tick_is_due_before_the_next_one_and_for_everybody_at_the_same_time(
    instant: datetime, jitter_s: float, cron: str
) -> None:
    of = schedule(cron, jitter_s=jitter_s)
    for tick in islice(of.ticks(instant), 5):
        due, following = of.due_at(tick, SEED), of.next_after(tick)
        assert tick <= due <= tick + (following - tick) * JITTER_SHARE
        assert due - tick <= timedelta(seconds=jitter_s)
        assert due == of.due_at(tick, SEED)


def test_installations_do_not_all_begin_at_once() -> None:
    of = schedule(jitter_s=60)
    tick = datetime(2024, 5, 1, 12, tzinfo=UTC)
    assert len({of.due_at(tick, UUID(int=number)) for number in range(50)}) == 50


@settings(max_examples=40)
@given(INSTANTS, st.integers(1, 300), st.floats(0, 400))
def test_what_is_due_is_what_ticked_and_whose_delay_is_over(
    after: datetime, minutes: int, jitter_s: float
) -> None:
    of, until = schedule(jitter_s=jitter_s), after + timedelta(minutes=minutes)
    found = list(of.due(after, until, SEED))
    assert found == [
        (tick, due) for tick in ticks(of, after, until) if (due := of.due_at(tick, SEED)) <= until
    ]
    following = of.next_due(until, SEED)
    assert following > until and all(due < following for _, due in found)


@pytest.mark.parametrize("cron", ["", "* * *", "61 * * * *", "0 0 31 2 *", "every minute", "*/0 * * * *"])
def test_a_cron_expression_that_never_comes_true_names_its_setting(cron: str) -> None:
    with pytest.raises(WrongSchedule, match="RAJADA_RECONCILE_CRON"):
        schedule(cron)


@pytest.mark.parametrize("zone", ["", "Brazil/Nowhere", "../etc/passwd", "/etc/localtime"])
def test_a_time_zone_that_does_not_exist_names_its_setting(zone: str) -> None:
    with pytest.raises(WrongSchedule, match="RAJADA_RECONCILE_TIME_ZONE"):
        schedule(zone=zone)
