"""Every outcome that was passed is counted in exactly one place."""

from __future__ import annotations

from schemas.records import Outcome
from sinks.batch import Record, Taken
from sinks.counting import Counts

OUTCOME = Outcome(organization_id="", at_ms=1, stage="decide", events=(), status="done")
RECORD = Record("dispatch.outcomes", 0, 7, 1, b"k", b"v", [])


def test_each_is_in_one_place_and_ends_of_partitions_are_in_none() -> None:
    counts = Counts()
    counts.add(
        [
            Taken(0, 8, OUTCOME, RECORD),
            Taken(0, 9, OUTCOME, RECORD),
            Taken(0, 10, None, RECORD),
            Taken(0, 11, None, RECORD, later=True),
            Taken(0, 12),
        ]
    )
    assert counts == Counts(passed=4, written=2, dead=1, postponed=1)
    assert counts.passed == counts.written + counts.dead + counts.postponed
