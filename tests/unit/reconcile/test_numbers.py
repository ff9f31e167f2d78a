"""What runs count, for the history and for `rajada status`."""

from __future__ import annotations

import json
from collections import Counter

from ops.counters import lines
from streams.reconcile.clock import Tally
from streams.reconcile.report import Report
from streams.reconcile.run import Made


def test_a_report_counts_by_reason_and_tells_only_what_is_there() -> None:
    report = Report(reserved=5, moved=Counter(b=3, a=1), skipped=Counter(changed_meanwhile=1), opened=2)
    assert report.counts() == {"reserved": 5, "moved": 4, "skipped": 1, "opened": 2, "resolved": 0}
    assert json.loads(report.facts()) == {"moved": {"a": 1, "b": 3}, "skipped": {"changed_meanwhile": 1}}
    assert Report().facts() == "{}"


def test_the_numbers_of_a_process_add_up_and_are_told_in_words() -> None:
    tally = Tally()
    assert lines("reconciler", tally.told()) == ["reconciler: 0 runs (last: none yet)"]
    tally.add(Made("done", Report(reserved=3, moved=Counter(x=3), opened=2, unknown={"new": 4}), took_s=0.25))
    tally.add(Made("failed", Report(reserved=1, skipped=Counter(y=1)), took_s=1.0))
    tally.ticks_skipped, tally.ticks_missed = 1, 1_200
    told = tally.told()
    assert (told["reserved"], told["unknown_states"]) == (4, 0)
    assert lines("reconciler", told) == [
        "reconciler: 2 runs (last: failed in 1.0 s): 3 instances moved, 1 left as they were, "
        "2 notifications opened, 1 runs failed, 1 ticks skipped, 1,200 ticks missed"
    ]
