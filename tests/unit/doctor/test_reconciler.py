"""The reconciler, as the doctor sees it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ops.doctor.reconciler import Seen, schedule, schema

WELL = Seen(silent_s=3.0, fired=12, skipped=1, missed=2, state="done", error=None, began_s=60.0, open=4)


def seen(**fields: object) -> Seen:
    return replace(WELL, **fields)  # type: ignore[arg-type]  # a test's own fields


def test_a_schedule_that_is_looked_at_tells_what_it_has_counted() -> None:
    verdict = schedule(WELL, "*/5 * * * *")
    assert verdict.level == "ok"
    for told in ("12 runs", "1 tick skipped", "2 missed", "4 notifications open", "*/5 * * * *"):
        assert told in verdict.found


@pytest.mark.parametrize(
    ("state", "told"),
    [
        (None, "no reconciler has looked"),
        (seen(silent_s=None), "no reconciler has looked"),
        (seen(silent_s=3_600.0), "since 3,600 s"),
        (seen(state="failed", error="LockNotAvailable (55P03)"), "LockNotAvailable"),
        (seen(state="lost"), "newest run is lost"),
    ],
)
def test_what_is_wrong_says_what_to_do(state: Seen | None, told: str) -> None:
    verdict = schedule(state, "*/5 * * * *")
    assert verdict.level == "warn" and told in verdict.found and "rajada" in verdict.advice


@pytest.mark.parametrize("state", ["running", "stopped", None])
def test_a_run_that_goes_on_or_was_stopped_is_no_trouble(state: str | None) -> None:
    assert schedule(seen(state=state), "*/5 * * * *").level == "ok"


def test_without_its_schema_it_can_do_nothing() -> None:
    assert schema(there=True).level == "ok"
    assert schema(there=False).level == "fail" and "rajada migrate" in schema(there=False).advice
