"""What becomes of a stuck instance, whatever its state and whatever the provider says."""

from __future__ import annotations

from typing import Literal, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.reconcile.instances import Instance, Leave, Move, Verdict, asked_at_once, decide, is_worth_asking

VERDICTS = (None, *get_args(Verdict))
Away = Literal["age", "leave"]


def instance(state: str) -> Instance:
    return Instance("i", "o", None, state, 7)


@pytest.mark.parametrize(
    ("verdict", "when_away", "wanted"),
    [
        (None, "age", "provisioning_failed"),
        (None, "leave", "provisioning_failed"),
        ("unhealthy", "age", "provisioning_failed"),
        ("unhealthy", "leave", "provisioning_failed"),
        ("healthy", "age", "connected"),
        ("healthy", "leave", "connected"),
        ("unreachable", "age", "provisioning_failed"),
        ("unreachable", "leave", None),
    ],
)
def test_provisioning_ends_failed_unless_the_provider_says_that_it_is_well(
    verdict: Verdict | None, when_away: Away, wanted: str | None
) -> None:
    decided = decide(instance("provisioning"), verdict, when_away=when_away)
    assert (decided.state if isinstance(decided, Move) else None) == wanted


@pytest.mark.parametrize("verdict", VERDICTS)
@pytest.mark.parametrize("when_away", get_args(Away))
def test_deprovisioning_always_ends_archived(verdict: Verdict | None, when_away: Away) -> None:
    decided = decide(instance("deprovisioning"), verdict, when_away=when_away)
    assert isinstance(decided, Move) and decided.state == "archived"


@given(
    st.text().filter(lambda state: state not in ("provisioning", "deprovisioning")),
    st.sampled_from(VERDICTS),
    st.sampled_from(get_args(Away)),
)
def test_br_57_whatever_is_not_understood_is_left_alone(
    state: str, verdict: Verdict | None, when_away: Away
) -> None:
    assert decide(instance(state), verdict, when_away=when_away) == Leave("unknown_state")
    assert not is_worth_asking(instance(state))


@given(st.integers(1, 10_000), st.integers(1, 500), st.floats(0.05, 60), st.floats(1, 600))
def test_even_the_slowest_provider_leaves_half_of_the_lease(
    batch: int, concurrency: int, timeout_s: float, lease_s: float
) -> None:
    count = asked_at_once(batch, concurrency=concurrency, timeout_s=timeout_s, lease_s=lease_s)
    assert 1 <= count <= batch
    rounds = -(-count // concurrency)
    assert rounds * timeout_s <= lease_s / 2 or count == 1
