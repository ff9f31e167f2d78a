"""Who is in the way of whom, and how it is told."""

from __future__ import annotations

import pytest

from schemas.records import RunBy
from settings import Settings
from streams.coexistence import Sign, What, cut_over, in_the_way, left_behind, parameters, told


def sign(what: What = "event", who: str | None = "drain", *, fresh: bool = True, count: int = 3) -> Sign:
    return Sign(what, who, fresh, count, 4.2)


@pytest.mark.parametrize(
    ("what", "run_by", "expected"),
    [
        ("event", "lanes", True),
        ("event", "table", True),
        ("made", "lanes", True),
        ("made", "table", True),
        ("job", "lanes", True),
        ("job", "table", False),
    ],
)
def test_a_drain_is_in_the_way_of_both_modes_and_workers_of_jobs_only_of_lanes(
    what: What, run_by: RunBy, expected: bool
) -> None:
    assert bool(in_the_way([sign(what)], run_by)) is expected
    assert in_the_way([sign(what, fresh=False)], run_by) == []


def test_our_own_name_is_in_the_way_too_since_we_never_write_processing() -> None:
    ours = sign(who="agent-engine")
    assert in_the_way([ours], "lanes") == [ours]
    assert "another process of our name" in told([ours])


@pytest.mark.parametrize(
    ("what", "who", "run_by", "expected"),
    [
        ("event", "agent-engine", "lanes", False),  # the sweep puts them back
        ("event", "other", "lanes", True),
        ("event", None, "table", True),
        ("job", "crm-1", "lanes", True),
        ("job", "crm-1", "table", False),  # its own workers reap it
        ("made", None, "lanes", True),
        ("made", None, "table", False),
    ],
)
def test_what_nobody_will_finish_is_told(what: What, who: str | None, run_by: RunBy, expected: bool) -> None:
    assert bool(left_behind([sign(what, who, fresh=False)], run_by)) is expected
    assert left_behind([sign(what, who)], run_by) == []


def test_the_words_have_counts_names_and_ages() -> None:
    signs = [
        sign(count=1),
        sign("job", "crm-7", count=2),
        Sign("made", None, True, 5, 0.2),
        Sign("event", None, False, 2, 7_300),
    ]
    assert told(signs) == (
        "1 event `processing` by drain, 4 s ago; 2 jobs `running` by crm-7, newest 4 s ago; "
        "5 pending jobs made by another drain, newest 0 s ago; "
        "2 events `processing` by an unnamed consumer, newest 2 h ago"
    )


def test_the_way_out_names_what_to_switch_off() -> None:
    drain, workers = "switch the old drain off", "let the CRM's workers finish"
    expected = {
        ("event", "lanes"): (True, False), ("event", "table"): (True, False),
        ("made", "lanes"): (True, True), ("made", "table"): (True, False),
        ("job", "lanes"): (False, True),
    }  # fmt: skip
    for (what, run_by), (of_drain, of_workers) in expected.items():
        way_out = cut_over([sign(what)], run_by)
        assert (drain in way_out, workers in way_out) == (of_drain, of_workers)
        assert "docs/cut-over.md" in way_out


def test_an_event_is_fresh_as_long_as_its_consumer_would_not_reap_it() -> None:
    assert parameters(Settings(event_reap_ms=7_000))["events_s"] == 7.0


def test_a_job_between_two_attempts_is_in_the_way_of_lanes() -> None:
    assert parameters(Settings())["made_s"] == parameters(Settings())["jobs_s"]
    assert parameters(Settings(jobs_run_by="table"))["made_s"] == 15.0
