"""Histograms count what they are given, once, in the right bucket."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from telemetry import catalogue
from telemetry.distribution import FAST, SLOW, Distribution, Family
from telemetry.exhibit import Exhibit
from telemetry.readings import spread

seconds = st.floats(min_value=-1, max_value=10_000, allow_nan=False)


@pytest.mark.thorough
@given(st.lists(seconds), st.sampled_from([FAST, SLOW]))
def test_what_is_shown_is_what_was_seen(values: list[float], bounds: tuple[float, ...]) -> None:
    seen = Distribution(bounds)
    for value in values:
        seen.observe(value)
    exhibit = Exhibit()
    exhibit.show(lambda: spread(catalogue.WINDOW_LATENESS, seen))
    (family,) = [
        one
        for one in text_string_to_metric_families(exhibit.render().decode())
        if one.name == catalogue.WINDOW_LATENESS.name
    ]
    for sample in family.samples:
        if sample.name.endswith("_bucket"):
            bound = float(sample.labels["le"])
            assert sample.value == sum(max(value, 0) <= bound for value in values), bound
        elif sample.name.endswith("_count"):
            assert sample.value == len(values) == seen.count


def test_bounds_are_those_of_the_bars() -> None:
    assert {0.1, 0.15, 0.25, 0.5} <= set(FAST), "100 ms, 150 ms, 250 ms, 500 ms can be read off"
    for bounds in (FAST, SLOW):
        assert list(bounds) == sorted(set(bounds))


def test_a_family_has_a_member_for_each_label_value() -> None:
    family = Family()
    family.observe(1.0, "inbound_turn", "done")
    family.observe(2.0, "inbound_turn", "done")
    family.observe(3.0, "inbound_turn", "retry")
    assert {labels: read.total for labels, read in family.read().items()} == {
        ("inbound_turn", "done"): 3.0,
        ("inbound_turn", "retry"): 3.0,
    }
