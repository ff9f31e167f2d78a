"""What is fired, skipped and missed, with a clock that jumps as it likes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.reconcile.schedule import Schedule
from streams.reconcile.ticking import MOST_COUNTED, Look, Seen, look

SEED = UUID("6b1f5c0e-0d0a-4a35-8d0c-0c6f5e1d2a3b")
NOON = datetime(2024, 5, 6, 12, tzinfo=UTC)
FIVE = timedelta(minutes=5)
SECOND = timedelta(seconds=1)


def schedule(cron: str = "*/5 * * * *", *, catch_up_s: float = 3_600, jitter_s: float = 0) -> Schedule:
    return Schedule.parse("x", cron, "America/Sao_Paulo", catch_up_s=catch_up_s, jitter_s=jitter_s)


@dataclass
class Table:
    """The schedule's row, and what came of it; runs take `run_s`."""

    of: Schedule = field(default_factory=schedule)
    run_s: float = 1.0
    settled: datetime | None = NOON
    run_until: datetime | None = None
    waiting: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    fired: list[tuple[str, datetime | None, datetime]] = field(default_factory=list)

    def look(self, now: datetime) -> Look:
        found = look(self.of, Seen(now, SEED, self.settled, self.run_until, self.waiting))
        if found.settled is not None:
            assert self.settled is None or found.settled > self.settled
            self.settled = found.settled
        self.counts["skipped"] += found.skipped
        self.counts["missed"] += found.missed
        if found.fire is not None:
            assert self.run_until is None or self.run_until <= now, "no overlap"
            self.run_until = now + timedelta(seconds=self.run_s)
            self.waiting = 0
            self.fired.append((found.fire, found.tick, now))
        assert found.wake_at > now
        return found


def test_each_tick_fires_once_at_its_time() -> None:
    table, now = Table(), NOON
    while now < NOON + 12 * FIVE:
        now = table.look(now).wake_at
    table.look(now)
    assert [tick for _, tick, _ in table.fired] == [NOON + n * FIVE for n in range(1, 13)]
    assert all(kind == "tick" and tick == at for kind, tick, at in table.fired)
    assert table.counts.total() == 0


def test_the_first_start_ever_has_missed_nothing() -> None:
    table = Table(settled=None)
    assert table.look(NOON + 2 * SECOND).fire is None
    assert table.settled == NOON
    assert table.look(NOON + FIVE).fire == "tick"


def test_br_23_a_body_that_blocks_for_three_ticks_is_one_run_and_two_skipped_ticks() -> None:
    table = Table(run_s=14 * 60)
    for second in range(0, 20 * 60, 20):
        table.look(NOON + FIVE + timedelta(seconds=second))
    assert [tick for _, tick, _ in table.fired] == [NOON + FIVE, NOON + 4 * FIVE]
    assert table.counts == {"skipped": 2, "missed": 0}


def test_br_23_it_makes_no_difference_whether_the_clock_was_awake_during_the_run() -> None:
    """A clock that the body blocks looks again when the run is over: the same two ticks are skipped."""
    table = Table(run_s=14 * 60)
    table.look(NOON + FIVE)
    found = table.look(NOON + FIVE + timedelta(minutes=14, seconds=1))
    assert found.fire is None and table.counts == {"skipped": 2, "missed": 0}
    assert table.look(NOON + 4 * FIVE).fire == "tick"


def test_br_23_a_worker_that_is_down_for_three_ticks_makes_up_for_one_and_counts_two() -> None:
    table = Table()
    found = table.look(NOON + 3 * FIVE + 90 * SECOND)
    assert (found.fire, found.tick) == ("late", NOON + 3 * FIVE)
    assert table.counts == {"skipped": 0, "missed": 2}
    assert table.look(NOON + 3 * FIVE + 95 * SECOND).fire is None


def test_br_61_fourteen_days_off_with_a_schedule_of_five_seconds_are_one_run() -> None:
    table = Table(of=schedule("*/5 * * * * *"))
    now = NOON + timedelta(days=14, seconds=2)
    table.look(now)
    assert [(kind, tick) for kind, tick, _ in table.fired] == [("late", NOON + timedelta(days=14))]
    assert table.counts == {"skipped": 0, "missed": MOST_COUNTED - 1}
    assert table.look(now + SECOND).fire is None
    assert table.look(now + 3 * SECOND).fire == "tick"


def test_br_61_fourteen_days_off_with_the_real_schedule_are_one_run_and_every_other_tick_is_counted() -> None:
    table = Table()
    table.look(NOON + timedelta(days=14, seconds=2))
    assert len(table.fired) == 1
    assert table.counts == {"skipped": 0, "missed": 14 * 24 * 12 - 1}


def test_a_tick_outside_the_catch_up_window_is_missed() -> None:
    table = Table(of=schedule("0 * * * *", catch_up_s=600))
    found = table.look(NOON + timedelta(hours=3, minutes=11))
    assert found.fire is None and table.counts == {"skipped": 0, "missed": 3}
    assert table.look(NOON + timedelta(hours=4, seconds=1)).fire == "tick"


def test_a_request_waits_for_the_run_that_goes_on_and_rides_with_a_tick() -> None:
    table = Table(run_s=60)
    table.look(NOON + FIVE)
    table.waiting = 2
    assert table.look(NOON + FIVE + 30 * SECOND).fire is None
    assert table.look(NOON + FIVE + 60 * SECOND).fire == "asked"
    table.waiting = 1
    found = table.look(NOON + 2 * FIVE)
    assert (found.fire, found.tick, table.waiting) == ("tick", NOON + 2 * FIVE, 0)


def test_a_request_is_served_though_the_tick_beside_it_is_skipped() -> None:
    table = Table(run_s=310, waiting=0)
    table.look(NOON + FIVE)
    table.waiting = 1
    found = table.look(NOON + FIVE + timedelta(seconds=311))
    assert (found.fire, found.tick, found.skipped) == ("asked", None, 1)


@pytest.mark.thorough
@settings(max_examples=50)
@given(
    st.lists(st.floats(0.1, 4_000), min_size=1, max_size=25),
    st.floats(0, 1_500),
    st.floats(0, 290),
    st.sampled_from(["*/5 * * * *", "*/7 * * * *", "0 * * * *"]),
)
def test_whenever_it_is_looked_at_every_tick_has_one_end_and_runs_never_overlap(
    pauses: list[float], run_s: float, jitter_s: float, cron: str
) -> None:
    table = Table(of=schedule(cron, jitter_s=jitter_s), run_s=run_s)
    now = NOON
    for pause in pauses:
        now += timedelta(seconds=pause)
        table.look(now)
    due = [tick for tick, _ in table.of.due(NOON, now, SEED)]
    ticks = [tick for _, tick, _ in table.fired]
    assert len(ticks) == len(set(ticks)) and set(ticks) <= set(due)
    assert len(ticks) + table.counts.total() == len(due)
    for (_, _, one), (_, _, following) in pairwise(table.fired):
        assert following >= one + timedelta(seconds=run_s)
    assert all(at >= table.of.due_at(tick, SEED) for _, tick, at in table.fired if tick is not None)
