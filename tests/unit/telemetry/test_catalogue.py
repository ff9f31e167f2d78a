"""The catalogue, its page, and what dashboards and alerts ask for say the same."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from telemetry.catalogue import CATALOGUE, PROCESSES, Metric, table

ROOT = Path(__file__).parents[3]
IDS = {"id", "event", "job", "contact", "organization", "offset", "key", "phone", "conversation", "session"}


@pytest.mark.parametrize("metric", CATALOGUE, ids=lambda metric: metric.name)
def test_a_name_tells_its_type_and_its_unit(metric: Metric) -> None:
    assert re.fullmatch(r"rajada_[a-z][a-z0-9_]*", metric.name)
    assert metric.name.endswith("_total") == (metric.kind == "counter")
    if metric.kind in ("histogram", "summary"):
        assert metric.name.endswith("_seconds")
    assert not re.search(r"_(ms|milliseconds|kb|mb|minutes)(_|$)", metric.name), "base units"
    assert metric.help.endswith(".") and len(metric.help) <= 120
    assert set(metric.served_by) <= set(PROCESSES) and metric.served_by
    assert not set(metric.labels) & IDS, "labels have few values"


def test_every_name_is_there_once() -> None:
    names = [metric.name for metric in CATALOGUE]
    assert len(names) == len(set(names))


def test_the_page_has_the_table_of_the_catalogue() -> None:
    page = (ROOT / "docs/metrics.md").read_text()
    assert table() in page, "print it anew: python -m telemetry.catalogue"


def test_the_page_names_no_metric_that_is_not_there() -> None:
    names = {metric.name for metric in CATALOGUE}
    page = (ROOT / "docs/metrics.md").read_text()
    for found in re.findall(r"\brajada_[a-z0-9_]+", page):
        assert re.sub(r"_(bucket|count|sum)$", "", found) in names or found in names, found
