"""What the doctor says of the database."""

from __future__ import annotations

import pytest

from ops.doctor.postgres import migrations, others, replica_identity, shape, skew, trigger_state, version
from settings import Settings
from streams.coexistence import Sign


@pytest.mark.parametrize(("number", "level"), [(140_012, "fail"), (150_004, "ok"), (180_001, "ok")])
def test_postgres_15_is_the_least(number: int, level: str) -> None:
    assert version(number, "here").level == level
    assert "Postgres 15.4 at here" in version(150_004, "here").found


@pytest.mark.parametrize(
    ("ahead_s", "unsure_s", "level"),
    [(0.0, 0.001, "ok"), (0.9, 0.001, "ok"), (-1.2, 0.01, "warn"), (1.2, 0.01, "warn"), (1.2, 0.5, "ok")],
)
def test_more_than_a_second_between_the_clocks_is_told_if_it_is_sure(
    ahead_s: float, unsure_s: float, level: str
) -> None:
    verdict = skew(ahead_s, unsure_s)
    assert verdict.level == level
    assert ("ahead of" if ahead_s > 0 else "behind") in verdict.found


def test_what_is_not_applied_or_missing_is_named_in_short() -> None:
    assert migrations([]).level == shape([]).level == "ok"
    assert migrations(["a", "b", "c", "d"]).found == "4 not applied: a, b, c …"
    assert shape(["a", "b", "c", "d", "e"]).found == "missing: a; b; c and 2 more"
    assert {migrations(["a"]).level, shape(["a"]).level} == {"fail"}


@pytest.mark.parametrize(
    ("state", "level"), [("O", "ok"), ("A", "ok"), ("D", "warn"), ("R", "warn"), (None, "warn")]
)
def test_a_trigger_that_does_not_fire_is_told(state: str | None, level: str) -> None:
    verdict = trigger_state(state)
    assert verdict.level == level
    assert ("ENABLE TRIGGER" in verdict.advice) == (state in ("D", "R"))


@pytest.mark.parametrize(
    ("identity", "has_key", "told"),
    [("d", True, False), ("d", False, True), ("n", True, True), ("f", False, False), ("i", False, False)],
)
def test_a_log_without_identity_is_told(identity: str, has_key: bool, told: bool) -> None:
    assert bool(replica_identity(identity, has_key)) is told


def test_another_consumer_is_a_failure_and_what_one_left_a_warning() -> None:
    signs = [Sign("event", "drain", True, 2, 1.0), Sign("event", "older", False, 3, 9_000)]
    at_work, left = others(signs, Settings())
    assert (at_work.level, left.level) == ("fail", "warn")
    assert "2 events `processing` by drain" in at_work.found and "docs/cut-over.md" in at_work.advice
    assert "3 events `processing` by older" in left.found


def test_the_crms_workers_are_no_trouble_where_they_run_the_jobs() -> None:
    signs = [Sign("job", "crm-1", True, 2, 1.0)]
    assert [verdict.level for verdict in others(signs, Settings())] == ["fail"]
    (verdict,) = others(signs, Settings(jobs_run_by="table"))
    assert verdict.level == "ok" and "the CRM's own workers" in verdict.found
