"""The main path with Debezium in the relay's place: rows become jobs, and what a lost slot missed, too."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ops.clinic import Clinic, Connection, Message, Patient
from ops.embedded.connect import EmbeddedConnect
from schemas.alert_texts import title
from settings import Settings
from streams.topics import ensure_topics
from tests.command_line import RAJADA
from tests.databases import drop_slot
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

pytestmark = pytest.mark.long

WINDOW_MS = 300
JOBS = "SELECT count(*) FROM job_queue"
ALERT = "SELECT string_agg(status, ' ') FROM agent_inbox_items WHERE title = %s"


@pytest.fixture
def running(
    processes: MakeProcesses, connect: EmbeddedConnect, kafka: str, prefix: str
) -> Iterator[Processes]:
    """Worker and sink, and the connectors, registered by the command."""
    made = processes(
        RAJADA_CONNECT_URL=connect.url,
        RAJADA_PUBLISHER="debezium",
        RAJADA_HEARTBEAT_S="0.3",
        RAJADA_ALERTS_EVERY_S="0.5",
        RAJADA_LANGUAGE="en",
    )
    ensure_topics(kafka, Settings(topic_prefix=prefix))
    made.spawn("worker")
    made.spawn("sink")
    assert [one["state"] for one in told(made, "register")["connectors"]] == ["RUNNING", "RUNNING"]
    made.wait_ready("worker")
    made.wait_ready("sink")
    yield made
    assert len(told(made, "remove")["removed"]) == 6


def told(processes: Processes, *arguments: str, exit_code: int = 0) -> dict[str, Any]:
    """What `rajada connector … --json` says."""
    done = processes.rajada("connector", *arguments, "--json")
    assert done.returncode == exit_code, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def test_br_49_br_53_rows_become_jobs_whatever_happens_to_columns_and_slot(
    running: Processes, connection: Connection
) -> None:
    """BR-53: columns that we don't read come and go; BR-49: rows without a slot become jobs all the same."""
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    ana, bia = clinic.register(connection, ["Ana", "Bia"])
    for _ in range(5):
        clinic.write(connection, [Message(ana)])
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == 5)
    assert value(connection, JOBS) == 1
    change_columns(connection, clinic, bia)
    said = told(running, "status")["connectors"]
    assert [(one["condition"]["state"], one["trouble"]) for one in said] == [("RUNNING", None)] * 2
    lose_slot(running, connection, clinic)
    healed = told(running, "register")["connectors"][0]
    assert (healed["new_slot"], healed["backfilled"]) == (True, 100)
    until(lambda: value(connection, JOBS) == 104)
    until(lambda: value(connection, ALERT, title("slot_lost", "en")) == "resolved")


def change_columns(connection: Connection, clinic: Clinic, patient: Patient) -> None:
    """A column of the event log is added, renamed, dropped: after each a message still becomes a job."""
    changes = ("ADD COLUMN extra int DEFAULT 7", "RENAME extra TO other", "DROP other")
    for jobs, change in enumerate(changes, 2):
        connection.execute(f"ALTER TABLE event_log {change}")  # type: ignore[arg-type]
        clinic.write(connection, [Message(patient)])
        until(partial(has_jobs, connection, jobs))


def has_jobs(connection: Connection, jobs: int) -> bool:
    return value(connection, JOBS) == jobs


def lose_slot(running: Processes, connection: Connection, clinic: Clinic) -> None:
    """The slot is deleted, 100 rows are inserted: an alert opens, status and doctor tell what to do."""
    patients = clinic.register(connection, [f"p{n}" for n in range(100)])
    drop_slot(connection, f"{running.environment['RAJADA_SLOT']}_dispatch")
    clinic.write(connection, [Message(patient) for patient in patients])
    until(lambda: value(connection, ALERT, title("slot_lost", "en")) == "open")
    (troubled, other) = told(running, "status", exit_code=10)["connectors"]
    assert "connector register" in troubled["trouble"]["advice"] and other["trouble"] is None
    assert {one["check"] for one in running.doctor() if one["level"] == "fail"} == {"connectors"}
    assert has_jobs(connection, 4)


def test_up_runs_debezium_in_place_of_the_relay_and_keeps_it_up(tmp_path: Path) -> None:
    environment = {**os.environ, "RAJADA_HOME": str(tmp_path / "home"), "RAJADA_JOBS_PAUSED": "1"}
    for given in ("KAFKA_BOOTSTRAP_SERVERS", "DATABASE_URL"):
        environment.pop(given, None)

    def rajada(*arguments: str) -> subprocess.CompletedProcess[str]:
        root = Path(__file__).parents[2]
        command = [*RAJADA, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=200, cwd=root)

    def units() -> dict[str, Any]:
        return {one["name"]: one for one in json.loads(rajada("status", "--json").stdout)["units"]}

    try:
        started = rajada("up", "--with-debezium", "--detach", "--timeout", "170")
        assert started.returncode == 0, started.stdout + started.stderr
        assert {"connect", "connectors"} <= units().keys() and "relay" not in units()
        os.kill(units()["connect"]["pid"], 9)
        until(
            lambda: units()["connect"]["restarts"] == 1 and units()["connect"]["state"] == "ready",
            90,
            every=1,
        )
        until(lambda: rajada("connector", "status").returncode == 0, 90, every=1)
        assert rajada("doctor").returncode == 0
    finally:
        assert rajada("down").returncode == 0
