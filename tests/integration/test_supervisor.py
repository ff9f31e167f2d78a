"""A stack under supervision, with real processes: order, restarts, stops, and what a killed one leaves."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ops.embedded.folder import DataFolder, open_folder
from ops.embedded.postgres import EmbeddedPostgres
from ops.embedded.process import ProcessId, identify
from ops.errors import StartFailed
from ops.given import check_kafka, check_postgres, whose_tables
from ops.supervision.lifecycle import Policy
from ops.supervision.run_file import RunFile, UnitView, clean_up, read_run_file, write_run_file
from ops.supervision.units import Program, ServerUnit, Step, Unit
from ops.supervisor import Supervisor
from settings import RajadaError
from tests.disks import small_disk

REPOSITORY = Path(__file__).parents[2]
POLICY = Policy(first_pause_s=0.05, longest_pause_s=0.2, tries=3)

# A small process that reports as ours do. It writes when it starts and when it is asked to stop.
CHILD = """
import os, signal, sys, time
import status
name, notes = sys.argv[1:3]

def note(what):
    with open(notes, "a") as file:
        file.write(f"{name} {what}\\n")

def stop(number, frame):
    note("stopped")
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
note("started")
status.report(name, "ready")
while True:
    time.sleep(0.02)
"""
DEAF = """
import signal, time
import status
signal.signal(signal.SIGTERM, signal.SIG_IGN)
status.report("deaf", "ready")
while True:
    time.sleep(0.1)
"""


@pytest.fixture
def folder(tmp_path: Path) -> DataFolder:
    return open_folder(tmp_path / "home")


class Lab:
    """Makes programs whose notes can be read, and runs supervisors over them in this thread."""

    def __init__(self, folder: DataFolder) -> None:
        self.folder = folder
        self.notes_file = folder.root / "notes.txt"
        self.views: list[tuple[UnitView, ...]] = []

    @property
    def notes(self) -> list[str]:
        return self.notes_file.read_text().splitlines() if self.notes_file.exists() else []

    def program(
        self, name: str, code: str = CHILD, after: tuple[str, ...] = (), once: bool = False
    ) -> Program:
        return Program(
            name,
            [sys.executable, "-c", code, name, str(self.notes_file)],
            log=self.folder.logs / f"{name}.log",
            status_folder=self.folder.status,
            environment=lambda: {**os.environ, "PYTHONPATH": str(REPOSITORY)},
            after=after,
            once=once,
        )

    def supervisor(self, units: Sequence[Unit], deadline_s: float = 5.0) -> Supervisor:
        return Supervisor(
            units,
            self.folder,
            policy=POLICY,
            stop_deadline_s=deadline_s,
            on_change=lambda views: self.views.append(tuple(views)),
        )

    def pid_of(self, supervisor: Supervisor, name: str) -> int:
        found = next(view.pid for view in supervisor.views if view.name == name)
        assert found is not None
        return found

    def run_while(self, supervisor: Supervisor, act: Callable[[], None]) -> None:
        """Supervise here (the thread that starts children has to live) while `act` runs beside."""
        failures: list[BaseException] = []

        def beside() -> None:
            try:
                act()
            except BaseException as error:
                failures.append(error)
            finally:
                supervisor.ask_to_stop()

        thread = threading.Thread(target=beside)
        thread.start()
        supervisor.run()
        thread.join()
        if failures:
            raise failures[0]


@pytest.fixture
def lab(folder: DataFolder) -> Lab:
    return Lab(folder)


def make_topic(bootstrap: str, name: str, timeout_s: float) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(timeout_s)


def until(true: Callable[[], bool], timeout_s: float = 15.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, "did not come true in time"
        time.sleep(0.02)


def test_units_start_when_what_they_build_on_is_ready_and_stop_in_reverse(lab: Lab) -> None:
    steps: list[str] = []

    def tables() -> str:
        steps.extend(lab.notes)
        return "made"

    units = [
        lab.program("first"),
        Step("tables", tables, after=("first",)),
        lab.program("second", after=("first", "tables")),
    ]
    supervisor = lab.supervisor(units)
    assert supervisor.run_until_up()
    assert steps == ["first started"]
    assert [(view.name, view.state) for view in supervisor.views] == [
        ("first", "ready"),
        ("tables", "done"),
        ("second", "ready"),
    ]
    assert supervisor.stop() == []
    assert lab.notes == ["first started", "second started", "second stopped", "first stopped"]
    assert {view.state for view in supervisor.views if view.name != "tables"} == {"stopped"}


def test_a_child_that_dies_is_restarted_and_the_others_are_left_alone(lab: Lab) -> None:
    supervisor = lab.supervisor([lab.program("steady"), lab.program("mortal")])
    assert supervisor.run_until_up()
    steady, mortal = (lab.pid_of(supervisor, name) for name in ("steady", "mortal"))

    def act() -> None:
        os.kill(mortal, signal.SIGKILL)
        until(lambda: lab.notes.count("mortal started") == 2)
        until(lambda: supervisor.all_up)
        assert lab.pid_of(supervisor, "mortal") != mortal
        assert lab.pid_of(supervisor, "steady") == steady

    lab.run_while(supervisor, act)
    told = [view.reason for views in lab.views for view in views if view.state == "restarting"]
    assert told[:1] == ["was ended by SIGKILL"]
    assert next(view.restarts for view in supervisor.views if view.name == "mortal") == 1
    supervisor.stop()


def test_an_old_report_does_not_make_a_new_process_ready(lab: Lab) -> None:
    (lab.folder.status / "slow.json").write_text(
        json.dumps({"state": "ready", "reason": "", "at": time.time(), "pid": 1})
    )
    supervisor = lab.supervisor([lab.program("slow", "import time; time.sleep(30)")])
    threading.Timer(0.7, supervisor.ask_to_stop).start()
    assert not supervisor.run_until_up()
    supervisor.stop()


def test_a_program_that_cannot_run_ends_the_start_with_its_log(lab: Lab) -> None:
    supervisor = lab.supervisor([lab.program("broken", "raise SystemExit('no such setting')")])
    with pytest.raises(StartFailed, match=r"(?s)broken ended with code 1, 3 times.*no such setting"):
        supervisor.run_until_up()
    supervisor.stop()


def test_a_step_that_fails_ends_the_start_with_its_own_error(lab: Lab) -> None:
    class Refused(RajadaError):
        pass

    def refuse() -> str:
        raise Refused("do this next")

    supervisor = lab.supervisor([lab.program("first"), Step("tables", refuse, after=("first",))])
    with pytest.raises(Refused, match="do this next"):
        supervisor.run_until_up()
    supervisor.stop()
    assert lab.notes == ["first started", "first stopped"]


def test_one_that_does_not_stop_in_time_is_killed(lab: Lab) -> None:
    supervisor = lab.supervisor([lab.program("deaf", DEAF)], deadline_s=0.3)
    assert supervisor.run_until_up()
    process = identify(lab.pid_of(supervisor, "deaf"))
    assert supervisor.stop() == ["deaf"]
    assert not process.alive


def test_a_second_request_to_stop_waits_for_nobody(lab: Lab) -> None:
    supervisor = lab.supervisor([lab.program("deaf", DEAF)], deadline_s=60.0)
    assert supervisor.run_until_up()
    supervisor.ask_to_stop()
    begun = time.monotonic()
    supervisor.ask_to_stop()
    supervisor.stop()
    assert time.monotonic() - begun < 10


def test_signals_that_come_while_a_child_is_waited_for_never_hang_the_stop(lab: Lab) -> None:
    supervisor = lab.supervisor([lab.program("deaf", DEAF)], deadline_s=60.0)
    assert supervisor.run_until_up()
    before = signal.signal(signal.SIGUSR1, lambda *_: supervisor.ask_to_stop())
    me = os.getpid()

    def hail() -> None:
        time.sleep(0.2)
        for _ in range(2_000):
            os.kill(me, signal.SIGUSR1)

    again = threading.Thread(target=hail)
    try:
        begun = time.monotonic()
        again.start()
        supervisor.stop()
        assert time.monotonic() - begun < 10
    finally:
        again.join()
        signal.signal(signal.SIGUSR1, before)


def test_a_program_that_runs_once_holds_nobody_up_and_is_not_restarted(lab: Lab) -> None:
    units = [lab.program("first"), lab.program("aside", "raise SystemExit(3)", after=("first",), once=True)]
    supervisor = lab.supervisor(units)
    assert supervisor.run_until_up()
    lab.run_while(supervisor, lambda: until(lambda: supervisor.views[1].state == "stopped"))
    assert (supervisor.views[1].restarts, supervisor.views[1].reason) == (0, "ended with code 3")
    supervisor.stop()


def test_a_disk_that_runs_full_is_told_once_and_so_is_that_there_is_room_again(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.supervisor._LOOK_AT_DISK_S", 0)
    found, told = iter(["", "900 MiB", "800 MiB", "700 MiB", ""]), list[str]()
    monkeypatch.setattr("ops.supervisor.shortage", lambda free, root: next(found, ""))
    supervisor = Supervisor([lab.program("one")], lab.folder, policy=POLICY, on_trouble=told.append)
    assert supervisor.run_until_up()
    lab.run_while(supervisor, lambda: until(lambda: told[-1:] == [""]))
    supervisor.stop()
    assert told == ["900 MiB", ""]


def test_a_server_that_dies_comes_back_on_its_port_with_its_data(lab: Lab) -> None:
    server = EmbeddedPostgres(lab.folder, durable=False)
    supervisor = lab.supervisor([ServerUnit(server)])
    assert supervisor.run_until_up()
    url = server.ensure_database("kept")

    def act() -> None:
        os.kill(lab.pid_of(supervisor, "postgres"), signal.SIGKILL)
        until(lambda: supervisor.views[0].restarts == 1 and supervisor.all_up, 30)
        psycopg.connect(url).close()

    lab.run_while(supervisor, act)
    supervisor.stop()
    server.destroy()


def test_the_run_file_of_a_killed_supervisor_is_cleaned_of_its_processes(folder: DataFolder) -> None:
    left = subprocess.Popen(["sleep", "60"], start_new_session=True)
    process = identify(left.pid)
    unit = UnitView("sink", "ready", time.time(), pid=process.pid, started=process.started)
    write_run_file(folder, RunFile(2**22 + 1, "1", "ready", time.time(), (unit,)))
    assert clean_up(folder) == ["sink"]
    assert left.wait(5) == -signal.SIGTERM
    assert not folder.run_file.exists()


# -- the command line, with real servers


class Command:
    """`rajada` on a data folder of its own, without servers that the environment names."""

    def __init__(self, home: Path) -> None:
        self.home = home
        kept = {k: v for k, v in os.environ.items() if k not in {"KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL"}}
        self.environment = {**kept, "RAJADA_HOME": str(home), "PYTHONPATH": str(REPOSITORY)}

    def __call__(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "ops.cli", *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
            env={**self.environment, **environment},
        )

    def run(self) -> RunFile:
        found = read_run_file(DataFolder(self.home))
        assert found is not None
        return found


@pytest.fixture
def rajada(tmp_path: Path) -> Iterator[Command]:
    command = Command(tmp_path / "home")
    yield command
    command("down", "--delete-data", "--yes")
    assert not command.home.exists()


@pytest.mark.long
def test_up_status_second_up_kill_9_up_again_and_down(rajada: Command) -> None:
    first = rajada("up", "--detach", "--json", "--servers-only")
    assert first.returncode == 0, first.stderr
    told = json.loads(first.stdout)
    with psycopg.connect(told["database_url"]) as connection:
        assert connection.execute("SELECT count(*) FROM event_log").fetchone() == (0,)

    status = rajada("status", "--json")
    assert status.returncode == 0
    assert json.loads(status.stdout)["kafka"] == told["kafka"]
    assert rajada("topics", "check").stdout.strip() == "All topics are as they must be."

    second = rajada("up", "--servers-only")
    assert second.returncode == 5
    assert f"process {told['supervisor_pid']}" in second.stderr

    run = rajada.run()
    os.kill(run.supervisor_pid, signal.SIGKILL)
    children = [ProcessId(unit.pid, unit.started) for unit in run.units if unit.pid is not None]
    assert len(children) >= 2
    until(lambda: rajada("status").returncode == 4)
    assert f"(process {run.supervisor_pid}) is gone without having stopped" in rajada("status").stderr
    assert json.loads(rajada("status", "--json").stdout)["state"] == "killed"
    again = rajada("up", "--detach", "--json", "--servers-only")
    assert again.returncode == 0, again.stderr
    assert not any(child.alive for child in children)
    restarted = json.loads(again.stdout)
    assert (restarted["kafka"], restarted["database_url"]) == (told["kafka"], told["database_url"])

    children = [ProcessId(unit.pid, unit.started) for unit in rajada.run().units if unit.pid is not None]
    down = rajada("down")
    assert down.returncode == 0, down.stderr
    assert not any(child.alive for child in children)
    assert rajada("status").returncode == 4


@pytest.mark.long
def test_given_servers_are_used_and_an_absent_one_is_told(
    rajada: Command, kafka: str, empty_database: str, prefix: str
) -> None:
    given = {
        "KAFKA_BOOTSTRAP_SERVERS": kafka,
        "DATABASE_URL": empty_database,
        "RAJADA_TOPIC_PREFIX": prefix,
    }
    done = rajada("up", "--detach", "--json", "--servers-only", **given)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert (told["kafka"], told["database_url"]) == (kafka, empty_database)
    assert not (rajada.home / "kafka" / "data").exists()
    assert rajada("down").returncode == 0

    away = rajada("up", **{**given, "KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1"})
    assert away.returncode == 7
    assert "correct KAFKA_BOOTSTRAP_SERVERS, or unset it" in away.stderr


def test_a_given_kafka_and_postgres_are_told_with_what_they_are(kafka: str, postgres: str) -> None:
    assert "broker" in check_kafka(kafka)
    assert "Postgres" in check_postgres(postgres)


def test_tables_are_ours_in_an_empty_database_and_the_crms_where_a_crm_is(empty_database: str) -> None:
    from db.migrate import migrate

    assert whose_tables(empty_database) == "ours"
    migrate(empty_database, crm="ours")
    assert whose_tables(empty_database) == "ours"


def test_a_database_with_tables_of_others_is_an_existing_crm(empty_database: str) -> None:
    with psycopg.connect(empty_database) as connection:
        connection.execute("CREATE TABLE event_log (id uuid)")
    assert whose_tables(empty_database) == "existing"


@pytest.mark.slow
def test_a_full_disk_is_told_and_everything_starts_again_when_there_is_room(tmp_path: Path) -> None:
    """Kafka ends when it can't write. The status must not go on saying that it is ready."""
    with small_disk(tmp_path / "disk", "1300m") as disk:
        rajada = Command(disk / "home")
        started = rajada("up", "--detach", "--servers-only")
        assert started.returncode == 0, started.stderr

        def states() -> dict[str, str]:
            told = json.loads(rajada("status", "--json").stdout)
            return {"trouble": told["trouble"], **{unit["name"]: unit["state"] for unit in told["units"]}}

        assert states()["trouble"] == ""
        with contextlib.suppress(OSError), (disk / "fill").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * (1 << 20))
        try:
            until(lambda: "0 MiB left" in states()["trouble"], 30)
            assert "0 MiB left" in rajada("status").stdout
            with contextlib.suppress(Exception):  # whoever writes finds that there is no room
                make_topic(rajada.run().kafka, "t", timeout_s=5)
            until(lambda: states()["kafka"] in ("restarting", "blocked"), 60)
        finally:
            (disk / "fill").unlink()
        until(lambda: (told := states())["trouble"] == "" and told["kafka"] == "ready", 90)
        make_topic(rajada.run().kafka, "after", timeout_s=30)
        assert rajada("down").returncode == 0
