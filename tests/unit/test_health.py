"""A worker tells what lasts as long as it lasts, and that it is over once."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Iterable

from schemas import alert_texts
from schemas.codec import decode_outcome
from schemas.records import Alert, Outcome
from settings import Settings
from streams.health import Health, conditions
from streams.ports import Item
from streams.skew import ClockSkew
from streams.steady_clock import SteadyClock
from streams.sweep_rounds import SweepRounds


class Nowhere:
    def send(self, topic: str, items: Iterable[Item]) -> Future[dict[int, int]]:
        raise NotImplementedError


def told(health: Health) -> list[Outcome]:
    return [decode_outcome(value) for _, value, _, _ in health.items() if value is not None]


def test_a_condition_is_repeated_while_it_lasts_and_its_end_is_told_once() -> None:
    wrong: list[Alert | None] = [None]
    health = Health({"x": lambda: wrong[0]}, Nowhere(), lambda: 7, "me")
    assert told(health) == []
    wrong[0] = alert_texts.clock_skew(1_500)
    for _ in range(2):
        (one,) = told(health)
        assert (one.organization_id, one.stage, one.status, one.outcome) == ("", "health", "pending", "x")
        assert (one.alert, one.facts, one.at_ms, one.events) == (wrong[0], '{"by":"me"}', 7, ())
    wrong[0] = None
    (over,) = told(health)
    assert (over.status, over.outcome, over.alert) == ("done", "x", None)
    assert told(health) == []


def test_words_of_one_teller_keep_their_order() -> None:
    health = Health({"x": lambda: alert_texts.clock_skew(1_500)}, Nowhere(), lambda: 7, "me")
    assert len({key for _ in range(3) for key, _, _, _ in health.items()}) == 1


def test_a_worker_looks_at_its_clock_and_at_the_sweep() -> None:
    skew, sweep = ClockSkew(), SweepRounds("postgresql://nowhere", "nowhere:1", Settings())
    looks = conditions(skew, SteadyClock(), sweep, "en")
    assert [look() for look in looks.values()] == [None, None]
    skew.observe(10_000, 1_000, 2_000)
    sweep.held_by = "the worker is 70 s behind"
    alerts = {name: look() for name, look in looks.items()}
    assert alerts["clock_skew"] == alert_texts.clock_skew(8_000, "en")
    assert alerts["sweep_held"] == alert_texts.sweep_held("the worker is 70 s behind", "en")


def test_a_machine_whose_clock_is_not_followed_is_told_of_as_long_as_that_is_so() -> None:
    wall = [7_000_000_000_000]
    clock = SteadyClock(lambda: wall[0] * 1_000_000, lambda: 1_000_000)
    looks = conditions(ClockSkew(), clock, SweepRounds("postgresql://nowhere", "nowhere:1", Settings()), "en")
    clock.compare(-3_600_000.0)
    assert looks["clock_skew"]() == alert_texts.clock_skew(-3_600_000, "en")
    wall[0] -= 3_600_000
    clock.now_ms()
    assert looks["clock_skew"]() is None
