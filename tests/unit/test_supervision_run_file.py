"""The run file names processes for good, and the next start ends those that a killed run left."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from ops.embedded.folder import DataFolder, open_folder
from ops.embedded.process import ProcessId, end_stray, identify
from ops.supervision.last_run import ended_as_json, how_it_ended
from ops.supervision.run_file import RunFile, UnitView, clean_up, read_run_file, strays_of, write_run_file
from tests.disks import small_disk


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return open_folder(tmp_path / "home")


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], start_new_session=True)
    yield process
    process.kill()
    process.wait()


def run_of(*units: UnitView) -> RunFile:
    return RunFile(os.getpid(), identify(os.getpid()).started, "ready", time.time(), units)


def view_of(name: str, process: ProcessId) -> UnitView:
    return UnitView(name, "ready", 0.0, pid=process.pid, started=process.started)


def test_what_is_written_is_read_back_and_only_its_owner_may(folder: DataFolder) -> None:
    run = run_of(UnitView("kafka", "ready", 1.5, listens="127.0.0.1:1", pid=7, started="8"))
    write_run_file(folder, run)
    write_run_file(folder, run)
    assert read_run_file(folder) == run
    assert folder.run_file.stat().st_mode & 0o777 == 0o600


def test_on_a_full_disk_it_still_tells_what_runs_no_more(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "256k") as disk:
        folder = open_folder(disk / "home", least_free=0)
        write_run_file(folder, run_of(UnitView("kafka", "ready", 1.5)))
        with contextlib.suppress(OSError), (disk / "fill").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        said = run_of(UnitView("kafka", "restarting", 2.5, reason="No space left on device " * 20))
        write_run_file(folder, said)
        assert read_run_file(folder) == said


def test_a_torn_run_file_reads_as_none(folder: DataFolder) -> None:
    folder.run_file.write_text('{"supervisor_pid": 1')
    assert read_run_file(folder) is None
    assert clean_up(folder) == []
    assert not folder.run_file.exists()


def test_a_live_process_is_itself_and_a_reused_pid_is_not(sleeper: subprocess.Popen[bytes]) -> None:
    process = identify(sleeper.pid)
    assert process.alive
    assert not ProcessId(sleeper.pid, "0").alive
    assert not ProcessId(sleeper.pid, "").alive


def test_a_zombie_is_not_alive() -> None:
    process = subprocess.Popen(["true"])
    named = identify(process.pid)
    deadline = time.monotonic() + 5
    while named.alive and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not named.alive
    process.wait()


def test_cleaning_ends_what_is_left_and_spares_who_reused_a_pid(
    folder: DataFolder, sleeper: subprocess.Popen[bytes]
) -> None:
    other = subprocess.Popen(["sleep", "60"], start_new_session=True)
    try:
        run = run_of(view_of("worker", identify(sleeper.pid)), view_of("sink", ProcessId(other.pid, "1")))
        write_run_file(folder, run)
        assert clean_up(folder, patience_s=2.0) == ["worker"]
        assert sleeper.wait(5) == -signal.SIGTERM
        assert other.poll() is None
        assert not folder.run_file.exists()
    finally:
        other.kill()
        other.wait()


def test_strays_are_ended_last_started_first(sleeper: subprocess.Popen[bytes]) -> None:
    process = identify(sleeper.pid)
    run = run_of(view_of("kafka", process), UnitView("topics", "done", 0.0), view_of("worker", process))
    assert [unit.name for unit, _ in strays_of(run)] == ["worker", "kafka"]


def test_a_stray_that_ignores_its_signal_is_killed() -> None:
    deaf = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);print(flush=True); time.sleep(60)"
    )
    process = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    process.stdout.readline()
    assert end_stray(identify(process.pid), signal.SIGTERM, patience_s=0.2)
    assert process.wait(5) == -signal.SIGKILL
    process.stdout.close()


# -- how the last run ended


def test_a_clean_stop_says_how_to_start() -> None:
    assert how_it_ended(None) == "`rajada up` starts it."
    assert json.loads(ended_as_json(None)) == {"state": "stopped"}


def test_a_start_that_failed_says_why() -> None:
    failed = replace(run_of(), state="failed", error="no Java")
    assert how_it_ended(failed).endswith("The last start failed: no Java")
    assert json.loads(ended_as_json(failed)) == {"state": "failed", "error": "no Java"}


def test_a_killed_supervisor_is_told_with_what_it_left(sleeper: subprocess.Popen[bytes]) -> None:
    killed = run_of(view_of("sink", identify(sleeper.pid)), view_of("worker", ProcessId(2**22 + 1, "1")))
    told = how_it_ended(killed)
    assert f"process {os.getpid()}) is gone without having stopped" in told
    assert "Still there: sink; `rajada down` ends them." in told and "`rajada up` goes on" in told
    assert json.loads(ended_as_json(killed)) == {
        "state": "killed", "supervisor_pid": os.getpid(),
        "still_there": [{"name": "sink", "pid": sleeper.pid}],
    }  # fmt: skip
    assert "None of its processes lives." in how_it_ended(run_of())
