"""What the sink is given to write."""

from __future__ import annotations

from collections import Counter
from uuid import uuid4

from bench.meter import Reading
from bench.sink import Compared
from bench.sink_workload import MIXED, Bench, Kind, kinds
from schemas.records import Outcome
from settings import Settings

OF_ROUND = 140
BENCH = Bench("", "", "", Settings(), str(uuid4()), [str(uuid4()) for _ in range(2_000)])


def _mixed() -> Kind:
    return next(one for one in kinds(BENCH, 3 * OF_ROUND, OF_ROUND) if one.name == MIXED)


def _sort_of(outcome: Outcome) -> tuple[str, str | None]:
    return outcome.stage, outcome.job_status


def test_mixed_rounds_are_alike_the_first_as_well() -> None:
    outcomes = _mixed().outcomes
    rounds = [outcomes[first : first + OF_ROUND] for first in range(0, len(outcomes), OF_ROUND)]
    sorts = [Counter(map(_sort_of, one)) for one in rounds]
    assert sorts[0] == sorts[1] == sorts[2]
    assert sorts[0] == {
        ("decide", "pending"): 40,
        ("execute", "running"): 40,
        ("execute", "done"): 40,
        ("decide", None): 20,
    }
    assert len({tuple(map(_sort_of, one)) for one in rounds}) == 1, "mixed in the same way"


def test_a_mixed_round_moves_the_jobs_of_the_one_before_and_the_first_those_of_the_lead() -> None:
    mixed = _mixed()
    made = [{one.job.id for one in mixed.lead if one.job is not None}]
    for first in range(0, len(mixed.outcomes), OF_ROUND):
        part = mixed.outcomes[first : first + OF_ROUND]
        assert {one.job.id for one in part if one.job is not None and one.stage == "execute"} == made[-1]
        made.append({one.job.id for one in part if one.job is not None and one.stage == "decide"})


def test_rows_are_events_that_have_one_and_jobs() -> None:
    by_name = {one.name: one for one in kinds(BENCH, OF_ROUND, OF_ROUND)}
    assert by_name["windows of three with their job"].rows == 4 * OF_ROUND
    assert by_name["windows without rows"].rows == OF_ROUND
    assert by_name[MIXED].rows == 4 * 40 + 2 * 40 + 20


def test_rows_a_second_follow_from_outcomes_a_second() -> None:
    used = Reading(0.0, 0.0, 0, 0.0)
    one = Compared("", (1_000.0, 2_000.0, 3_000.0), (1.0,) * 3, (used,) * 3, outcomes=100, rows=750)
    assert one.rows_per_s == 5_000.0
