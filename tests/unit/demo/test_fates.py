"""What outcomes tell of a job's way, in the demo's words."""

from __future__ import annotations

import msgspec
import pytest

from ops.demo.fates import LEVELS, Fate, moved, told
from ops.demo.happenings import FateState
from schemas.records import Outcome
from tests.unit.job_worlds import START_MS, job_of

JOB = msgspec.structs.replace(job_of(1), seq=7, attempt=2)


def outcome(status: str, named: str | None, **more: object) -> Outcome:
    given: dict[str, object] = {
        "organization_id": JOB.organization_id,
        "at_ms": START_MS,
        "stage": "execute",
        "events": (),
        "status": "done",
        "outcome": named,
        "job": JOB,
        "job_status": status,
        **more,
    }
    return Outcome(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("status", "named", "state", "why"),
    [
        ("running", None, "running", ""),
        ("done", "done", "answered", ""),
        ("done", "merged:other", "merged", ""),
        ("done", "covered_by:other", "covered", ""),
        ("failed", "vetoed:http_409: closed", "vetoed", "http_409: closed"),
        ("failed", "cancelled:by hand", "cancelled", "by hand"),
        ("dead", "dead:http_422", "dead", "http_422"),
        ("held", "held:no_engine: unset", "held", "no_engine: unset"),
        ("pending", "released", "waiting", ""),
        ("pending", "handed_back", "waiting", ""),
    ],
)
def test_every_outcome_of_the_executor_is_a_state(
    status: str, named: str | None, state: FateState, why: str
) -> None:
    seen = moved(outcome(status, named), 5.0, START_MS)
    assert seen is not None
    assert (seen.state, seen.why, seen.order, seen.attempts) == (state, why, (0, 7), 2)
    assert seen.into == ("other" if state in ("merged", "covered") else None)


def test_a_retry_says_when_it_runs_again() -> None:
    seen = moved(outcome("pending", "retry:http_503", next_attempt_at_ms=START_MS + 3_500), 5.0, START_MS)
    assert seen is not None
    assert (seen.state, seen.why, seen.again_at) == ("delayed", "http_503", 8.5)


def test_outcomes_of_events_and_commands_tell_nothing_of_a_job() -> None:
    assert moved(outcome("pending", "job", stage="decide"), 5.0, START_MS) is None
    assert moved(outcome("done", "job", job=None, job_status=None), 5.0, START_MS) is None
    assert (
        moved(outcome("done", "refused:cancel", job=None, job_status=None, stage="control"), 5.0, 1) is None
    )


@pytest.mark.parametrize("state", list(LEVELS))
def test_every_state_is_told_in_words(state: FateState) -> None:
    words = told(Fate("j", state, why="http_503", again_at=9.0, attempts=2), 3, 5.5)
    assert words and "http_503" not in words
    assert ("3.5 s" in words) == (state == "delayed")


def test_a_number_without_connection_is_no_failed_attempt() -> None:
    fate = Fate("j", "delayed", why="session_not_working", again_at=35.0)
    assert told(fate, 1, 5.0) == "its WhatsApp number is not connected, looks again in 30.0 s"
