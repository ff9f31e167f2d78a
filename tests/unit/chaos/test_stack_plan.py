"""The plan of a run over the whole stack: its seed says all, every kind is met, heavy ones don't overlap."""

from __future__ import annotations

from itertools import pairwise

import pytest

from chaos.stack.plan import (
    BOUNDED,
    KINDS,
    PROCESSES,
    QUIET_S,
    ROOM_S,
    WORKERS,
    Fault,
    has_zombie,
    only,
    plan,
)

SEEDS = range(60)


def test_a_seed_gives_the_same_plan_each_time_and_another_seed_another() -> None:
    assert plan(3, 200, KINDS) == plan(3, 200, KINDS)
    assert plan(3, 200, KINDS) != plan(4, 200, KINDS)


@pytest.mark.thorough
@pytest.mark.parametrize("seconds", [20, 60, 180, 600])
def test_faults_are_numbered_in_order_and_are_over_before_the_load_ends(seconds: float) -> None:
    for seed in SEEDS:
        found = plan(seed, seconds, KINDS)
        assert [one.number for one in found] == list(range(1, len(found) + 1))
        assert [one.at_s for one in found] == sorted(one.at_s for one in found)
        assert all(one.at_s >= QUIET_S and one.at_s + one.seconds <= seconds - QUIET_S for one in found)
        assert all(one.target in KINDS[one.kind].targets for one in found)


def test_a_run_of_five_minutes_meets_every_kind() -> None:
    for seed in SEEDS:
        assert {one.kind for one in plan(seed, 300, KINDS)} == KINDS.keys()


def test_the_bounded_mix_meets_all_of_it_with_any_seed_kills_each_process_and_has_a_zombie() -> None:
    for seed in range(60):
        found = plan(seed, 75, BOUNDED)
        assert {one.kind for one in found} == set(BOUNDED)
        assert {one.target for one in found if one.kind == "kill"} == set(PROCESSES)
        assert has_zombie(found)


def test_the_bounded_mix_holds_what_continuous_integration_must_see() -> None:
    assert {"kill", "term", "stop", "join", "leave", "broker-leader", "postgres-stop", "engine-hang"} < set(
        BOUNDED
    )
    assert "cdc-disorder" in BOUNDED
    assert not [name for name in BOUNDED if KINDS[name].alone]


def test_a_zombie_is_a_frozen_worker_that_nothing_else_happens_to() -> None:
    stop = Fault(1, 30.0, "stop", WORKERS[0], 20.0)
    assert has_zombie([stop, Fault(2, 40.0, "kill", WORKERS[1])])
    assert not has_zombie([stop, Fault(2, 40.0, "kill", WORKERS[0])]), "killed in its sleep"
    assert not has_zombie([stop, Fault(2, 28.0, "kill", WORKERS[0])]), "just started, it owns nothing"
    assert not has_zombie([Fault(1, 30.0, "stop", "sink", 20.0)])


def test_two_servers_are_never_away_at_once_and_a_disaster_has_the_stack_for_itself() -> None:
    for seed in SEEDS:
        found = plan(seed, 600, KINDS)
        heavy = [one for one in found if KINDS[one.kind].heavy or KINDS[one.kind].alone]
        for one, after in pairwise(heavy):
            assert after.at_s >= one.at_s + one.seconds + ROOM_S[one.kind]
        for disaster in (one for one in found if KINDS[one.kind].alone):
            during = (disaster.at_s, disaster.at_s + ROOM_S[disaster.kind])
            others = [one for one in found if one is not disaster]
            assert all(one.at_s + one.seconds <= during[0] or one.at_s >= during[1] for one in others)


def test_kinds_can_be_chosen_and_unknown_ones_are_refused() -> None:
    assert {one.kind for one in plan(1, 60, ["kill", "stop"])} == {"kill", "stop"}
    assert plan(1, 60, []) == []
    with pytest.raises(KeyError, match="earthquake"):
        plan(1, 60, ["earthquake"])


def test_a_clock_is_set_by_an_hour_either_way() -> None:
    steps = {one.argument for seed in SEEDS for one in plan(seed, 100, ["clock"])}
    assert steps == {-1.0, 1.0}


def test_single_faults_of_a_plan_keep_their_times() -> None:
    found = plan(5, 200, KINDS)
    assert only(found, [2, 4]) == [found[1], found[3]]
