"""What processes have counted, as `rajada status` shows it."""

import os
from pathlib import Path

import pytest

import status
from ops.counters import counted, lines
from ops.supervision.run_file import UnitView


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
        "        302 windows: 280 jobs, 10 org_not_operating, 12 open",
        "        sweep held: the sink is more than 60 s behind; 3 published again",
    ]


def test_numbers_of_others_are_shown_as_they_are() -> None:
    assert lines("sink", {"written": 2_000, "state": "well"}) == ["sink: written 2,000, state well"]
