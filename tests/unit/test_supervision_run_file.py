"""The run file names processes for good, and the next start ends those that a killed run left."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ops.embedded.folder import DataFolder, open_folder
from ops.embedded.process import ProcessId, end_stray, identify
from ops.supervision.run_file import RunFile, UnitView, clean_up, read_run_file, strays_of, write_run_file


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
