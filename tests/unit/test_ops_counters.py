"""What processes have counted, as `rajada status` shows it."""

import os
from pathlib import Path

import pytest

import status
from ops.counters import counted, lines
from ops.supervision.run_file import UnitView
from streams.job_counting import JobTally, told


def test_only_the_numbers_of_the_process_that_runs_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(status.STATUS_DIR, str(tmp_path))
    status.counters("worker", {"read": 1})
    status.counters("sink", {"written": 2})
    units = [
        UnitView(name="worker", state="ready", since=0, pid=os.getpid()),
        UnitView(name="sink", state="ready", since=0, pid=1),
        UnitView(name="kafka", state="ready", since=0, pid=os.getpid()),
    ]
    assert counted(tmp_path, units) == {"worker": {"read": 1}}


def test_the_workers_numbers_add_up_before_the_readers_eyes() -> None:
    values = {
        "read": 1_234,
        "opened": 300,
        "joined": 900,
        "duplicate": 34,
        "recovered": 2,
        "jobs": 280,
        "open": 12,
        "stop:org_not_operating": 10,
        "sweep": "held: the sink is more than 60 s behind",
        "swept": 3,
    }
    assert lines("worker", values) == [
        "worker: 1,234 events read: 300 opened a window, 900 joined one, 34 known before",
        "        302 windows, 2 of them found at the start: 280 jobs, 10 org_not_operating, 12 open",
        "        sweep held: the sink is more than 60 s behind; 3 published again",
    ]


def test_numbers_of_others_are_shown_as_they_are() -> None:
    assert lines("sink", {"written": 2_000, "state": "well"}) == ["sink: written 2,000, state well"]


def test_the_executors_numbers_are_told_in_words() -> None:
    values: dict[str, int | str] = {
        "read": 5,
        "jobs_running": 1,
        "jobs_waiting": 4,
        "attempts": 1_050,
        "attempts_done": 1_000,
        "attempts_delayed": 40,
        "attempts_failed": 2,
        "attempts_dead": 3,
        "attempts_handed_back": 1,
        "attempts_lost": 4,
        "session_waits": 6,
        "jobs_paused": "everybody",
    }
    assert lines("worker", values)[2:] == [
        "        1 job running, 4 contacts waiting; 1,050 attempts: 1,000 done, 40 to be tried again, "
        "2 vetoed, 3 dead, 1 handed back, 4 lost with a worker",
        "        6 jobs found a channel session that doesn't work",
        "        paused: everybody; `rajada resume` lets their jobs go on",
    ]
    assert lines("worker", {"read": 5, "attempts": 0, "jobs_elsewhere": 2})[2:] == [
        "        0 jobs running, 0 contacts waiting; 0 attempts",
        "        2 jobs left to the CRM's own workers",
    ]


def test_the_forwarders_numbers_are_told_in_words() -> None:
    values: dict[str, int | str] = {"held": 12, "due": 1_034, "late_records": 0}
    assert lines("delays", values) == ["delays: 12 records at hand, 1,034 sent back to run"]
    values |= {"late_records": 3, "late_p50_ms": 12, "late_p99_ms": 40, "dead": 1}
    assert lines("delays", values) == [
        "delays: 12 records at hand, 1,034 sent back to run; in the last minute 3 records, 12 ms late "
        "(99 %: 40 ms); 1 dead letters"
    ]


def test_whose_jobs_are_paused_is_told_and_no_list_without_an_end() -> None:
    tally = JobTally()
    assert "jobs_paused" not in told(tally, 0, 0)
    assert told(tally, 1, 2, {"b", "a"})["jobs_paused"] == "a, b"
    assert told(tally, 1, 2, {"a", "*"})["jobs_paused"] == "everybody"
    many = {f"{number:02d}" for number in range(12)}
    assert str(told(tally, 1, 2, many)["jobs_paused"]).endswith("08, 09 and 2 more")


def test_group_links_are_counted_where_they_went() -> None:
    told = lines(
        "worker", {"read": 0, "group_links_read": 3, "group_links_enqueued": 2, "group_links_dead": 1}
    )
    assert told[-1].strip() == "3 group links read: 2 on their way, 1 dead letters"
    assert all("group links" not in line for line in lines("worker", {"read": 0, "group_links_read": 0}))
