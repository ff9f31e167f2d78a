"""When a supervised thing is started again, how long it pauses, and when it is given up."""

import pytest

from ops.supervision.lifecycle import UP, Life, Policy, State

POLICY = Policy(first_pause_s=0.2, longest_pause_s=3.0, steady_s=10.0, tries=3, start_timeout_s=60.0)


def started(life: Life, now: float) -> Life:
    return life.into(State.PREPARING, now).spawned(now)


def test_the_pause_doubles_up_to_its_bound() -> None:
    assert [POLICY.pause_s(deaths) for deaths in range(1, 7)] == [0.2, 0.4, 0.8, 1.6, 3.0, 3.0]
    assert POLICY.pause_s(10_000) == 3.0


def test_one_that_never_was_ready_is_given_up_after_its_tries() -> None:
    life = Life()
    for now in (1.0, 2.0):
        life = started(life, now).died("ended with code 1", now, POLICY)
        assert life.state is State.RESTARTING
    life = started(life, 3.0).died("ended with code 1", 3.0, POLICY)
    assert (life.state, life.reason) == (State.FAILED, "ended with code 1")


def test_one_that_was_ready_once_is_never_given_up() -> None:
    life = started(Life(), 0.0).into(State.READY, 1.0)
    for turn in range(20):
        life = started(life, float(turn)).died("ended", float(turn), POLICY)
        assert life.state is State.RESTARTING


def test_a_steady_one_starts_over_with_the_shortest_pause() -> None:
    life = started(Life(), 0.0).into(State.READY, 1.0).died("ended", 2.0, POLICY)
    life = started(life, 3.0).died("ended", 3.0, POLICY)
    assert life.quick_deaths == 2
    life = started(life, 4.0).into(State.READY, 5.0).died("ended", 16.0, POLICY)
    assert (life.quick_deaths, life.retry_at) == (1, pytest.approx(16.2))


def test_it_may_start_again_only_when_its_pause_is_over() -> None:
    life = started(Life(), 0.0).died("ended", 1.0, POLICY)
    assert not life.may_start(1.1)
    assert life.may_start(1.2)
    assert not life.into(State.READY, 2.0).may_start(99.0)
    assert Life().may_start(0.0)


def test_restarts_are_counted_and_the_first_start_is_none() -> None:
    life = started(Life(), 0.0)
    assert life.restarts == 0
    life = started(life.died("ended", 1.0, POLICY), 2.0)
    assert life.restarts == 1


def test_staying_in_a_state_keeps_its_time_and_takes_the_newer_reason() -> None:
    life = Life().into(State.WAITING, 1.0, "Postgres is away").into(State.WAITING, 5.0, "still away")
    assert (life.since, life.reason) == (1.0, "still away")


def test_only_a_start_can_be_overdue() -> None:
    life = started(Life(), 0.0)
    assert not life.overdue(60.0, POLICY)
    assert life.overdue(60.1, POLICY)
    assert not life.into(State.READY, 1.0).overdue(1000.0, POLICY)


def test_others_build_on_what_is_ready_done_or_waiting() -> None:
    assert {State.READY, State.DONE, State.WAITING} == UP
