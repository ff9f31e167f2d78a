"""Curves of a soak: what grows is told from what is flat, whatever the first minutes did."""

from __future__ import annotations

import random

import pytest

from chaos.stack.curves import Sample, curves


def run(memory: list[float], lag: list[int] | None = None) -> list[Sample]:
    waits = lag or [10] * len(memory)
    return [
        Sample(number * 5.0, number, {"worker-1": mib}, {"source": waits[number]})
        for number, mib in enumerate(memory)
    ]


def flat(samples: list[Sample]) -> dict[str, bool]:
    return {one.name: one.flat for one in curves(samples)}


def test_a_steady_process_with_noise_is_flat() -> None:
    dice = random.Random(1)
    assert flat(run([200 + dice.uniform(-8, 8) for _ in range(400)])) == {
        "worker-1": True,
        "lag source": True,
    }


def test_growth_in_the_warm_up_does_not_count() -> None:
    assert flat(run([min(300.0, 100 + number * 3.0) for number in range(400)]))["worker-1"]


def test_a_leak_is_found_and_measured() -> None:
    (found, _) = curves(run([200 + number * 0.5 for number in range(400)]))
    assert not found.flat
    assert found.per_hour == pytest.approx(0.5 / 5 * 3600)
    assert found.most == pytest.approx(200 + 399 * 0.5)


def test_a_lag_that_grows_is_found_and_one_that_comes_and_goes_is_not() -> None:
    assert not flat(run([100.0] * 400, [number * 50 for number in range(400)]))["lag source"]
    assert flat(run([100.0] * 400, [9_000 if number % 40 == 0 else 5 for number in range(400)]))["lag source"]


def test_a_run_of_one_sample_has_curves() -> None:
    assert flat(run([100.0])) == {"worker-1": True, "lag source": True}
