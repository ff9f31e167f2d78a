"""What docs/disasters.md tells to do, done: nobody is answered twice, and nobody is forgotten."""

from __future__ import annotations

import json
import signal
import time
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient

from ops.clinic import Clinic, Connection, Message, Patient, Written
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from tests.databases import drop_slot
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

pytestmark = pytest.mark.slow

ALL = ("relay", "worker", "sink", "delays")
DONE_JOBS = "SELECT count(*) FROM job_queue WHERE status = 'done'"
BACKED_UP = (
    "event_log",
    "job_queue",
    "agent_inbox_items",
    "rajada.sink_offsets",
    "rajada.trace",
    "rajada.swept",
)


def told(running: Processes, *arguments: str) -> dict[str, Any]:
    done = running.rajada(*arguments, "--json")
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def stop(running: Processes) -> None:
    for name in running.alive():
        assert running.kill(name, signal.SIGTERM) == 0


def write(connection: Connection, clinic: Clinic, patients: list[Patient]) -> list[Written]:
    return clinic.write(connection, [Message(patient) for patient in patients])


def check_of(running: Processes, name: str) -> dict[str, Any]:
    (found,) = [one for one in running.doctor() if one["check"] == name and one["area"] == "pipeline"]
    return found


def lose(running: Processes, admin: AdminClient, gone: list[str]) -> None:
    """Delete topics, and make them anew as an operator does."""
    for future in admin.delete_topics(gone).values():
        future.result(10)
    until(lambda: not set(gone) & admin.list_topics(timeout=10).topics.keys())
    assert running.rajada("topics", "ensure").returncode == 0


def test_tables_from_an_older_backup_are_brought_up_to_date_before_anybody_decides(
    processes: MakeProcesses, connection: Connection, engine: EngineBeside
) -> None:
    running = processes(AGENT_ENGINE_URL=engine.url, RAJADA_PERSON_SPACING_MS="0")
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{number}" for number in range(20)])
    running.start(*ALL)
    write(connection, clinic, patients[:5])
    until(lambda: value(connection, DONE_JOBS) == 5)
    assert running.kill("worker", signal.SIGTERM) == 0
    write(connection, clinic, patients[5:15])  # pending when the backup is made, answered after it

    connection.execute("CREATE SCHEMA backup")
    for table in BACKED_UP:
        copy = table.rpartition(".")[2]
        connection.execute(f"CREATE TABLE backup.{copy} AS TABLE {table}")  # type: ignore[arg-type]
    running.start("worker")
    until(lambda: value(connection, DONE_JOBS) == 15)
    write(connection, clinic, patients[15:])  # not in the backup at all
    until(lambda: value(connection, DONE_JOBS) == 20)
    rows = "SELECT id, status, outcome_seq, attempts FROM job_queue ORDER BY id"
    before = connection.execute(rows).fetchall()
    effects = engine.effects()

    stop(running)
    slot = running.environment["RAJADA_SLOT"]
    drop_slot(connection, slot)  # a restored server has none
    for table in reversed(BACKED_UP):
        connection.execute(f"DELETE FROM {table}")  # type: ignore[arg-type]
    for table in BACKED_UP:
        copy = table.rpartition(".")[2]
        connection.execute(f"INSERT INTO {table} SELECT * FROM backup.{copy}")  # type: ignore[arg-type]
    assert value(connection, "SELECT count(*) FROM event_log WHERE status = 'pending'") == 10

    running.start("sink")  # alone
    until(lambda: "0 records to go" in check_of(running, "sink")["found"], every=1)
    assert value(connection, "SELECT count(*) FROM event_log WHERE status = 'pending'") == 0
    assert connection.execute(rows).fetchall() == before, "rows of jobs come back whole, also the newest"
    running.start("relay", "worker", "delays")
    write(connection, clinic, patients[:1])
    until(lambda: value(connection, DONE_JOBS) == 21)
    time.sleep(2)
    after = engine.effects()
    assert effects.items() <= after.items() and len(after) == len(effects) + 1, "only the new message"
    assert set(after.values()) == {1}


def test_jobs_that_nobody_knows_any_more_are_made_anew_for_their_contact(
    processes: MakeProcesses, connection: Connection, engine: EngineBeside, kafka: str, prefix: str
) -> None:
    running = processes(AGENT_ENGINE_URL=engine.url, RAJADA_PERSON_SPACING_MS="0")
    clinic = Clinic.found(connection, debounce_ms=300)
    ana, bia = clinic.register(connection, ["Ana", "Bia"])
    running.start(*ALL)
    write(connection, clinic, [bia])
    until(lambda: value(connection, DONE_JOBS) == 1)
    told(running, "pause", "--yes", "--wait")
    (lost,) = write(connection, clinic, [ana])
    job = "SELECT status FROM job_queue WHERE source_event_id = %s"
    until(lambda: value(connection, job, lost.event_id) == "pending")

    stop(running)
    admin = AdminClient({"bootstrap.servers": kafka})
    gone = [f"{prefix}dispatch.jobs", f"{prefix}rajada-dispatch-jobs-changelog"]
    lose(running, admin, gone)
    assert running.rajada("topics", "check").returncode == 0
    running.start(*ALL)
    told(running, "resume", "--wait")
    time.sleep(2)
    assert engine.requests(contact_id=ana.contact_id) == [], "nothing brings it back by itself"

    whose = "SELECT id::text FROM job_queue WHERE source_event_id = %s"
    job_id = str(value(connection, whose, lost.event_id))
    asked = running.rajada("jobs", "ask", "--older-s", "0", "--json")
    assert asked.returncode == 10 and json.loads(asked.stdout)["unknown"] == [job_id], asked.stderr
    assert engine.requests(contact_id=ana.contact_id) == [], "to ask begins nothing"
    begun = told(running, "jobs", "ask", "--older-s", "0", "--run", "--yes")
    assert list(begun["begun"]) == [job_id]
    until(lambda: value(connection, DONE_JOBS) == 2)
    assert value(connection, job, lost.event_id) == "done", "the same job, the same row"
    assert len(engine.requests(contact_id=ana.contact_id)) == 1
    assert len(engine.requests(contact_id=bia.contact_id)) == 1


def test_windows_and_waits_that_went_with_their_topics_come_back(
    processes: MakeProcesses, connection: Connection, engine: EngineBeside, kafka: str, prefix: str
) -> None:
    running = processes(
        AGENT_ENGINE_URL=engine.url,
        RAJADA_PERSON_SPACING_MS="0",
        EVENT_REAP_MS="3000",
        RAJADA_SWEEP_EVERY_S="1",
    )
    clinic = Clinic.found(connection, debounce_ms=4_000)
    ana, *patients = clinic.register(connection, ["Ana", *(f"p{number}" for number in range(5))])
    running.start(*ALL)
    engine.treat(Scenario(mode="rate", retry_after="600", times=1), who=ana.contact_id)
    (late,) = write(connection, clinic, [ana])
    ahead = "run_after > now() + interval '1 minute'"
    waits = f"SELECT id::text FROM job_queue WHERE source_event_id = %s AND {ahead}"
    until(lambda: value(connection, waits, late.event_id) is not None)
    job = str(value(connection, waits, late.event_id))
    write(connection, clinic, patients)
    time.sleep(1)  # on their way, or in open windows
    stop(running)

    admin = AdminClient({"bootstrap.servers": kafka})
    ours = [name for name in admin.list_topics(timeout=10).topics if name.startswith(prefix)]
    source, windows = f"{prefix}ai_agent.dispatch_requested", f"{prefix}rajada-dispatch-contacts-changelog"
    gone = [source, windows, *(name for name in ours if ".delay." in name)]
    lose(running, admin, gone)
    running.start(*ALL)
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'pending'") == 0)
    until(lambda: value(connection, DONE_JOBS) == len(patients))
    assert [len(engine.requests(contact_id=one.contact_id)) for one in patients] == [1] * len(patients)

    told(running, "jobs", "run-now", job, "--wait")
    until(lambda: value(connection, DONE_JOBS) == len(patients) + 1)
    assert len(engine.requests(contact_id=ana.contact_id)) == 2


def test_outcomes_that_were_lost_unread_are_told_again_and_nobody_is_answered_twice(
    processes: MakeProcesses, connection: Connection, engine: EngineBeside, kafka: str, prefix: str
) -> None:
    running = processes(
        AGENT_ENGINE_URL=engine.url,
        RAJADA_PERSON_SPACING_MS="0",
        EVENT_REAP_MS="3000",
        RAJADA_SWEEP_EVERY_S="1",
    )
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{number}" for number in range(5)])
    running.start("relay", "worker", "delays")  # no sink
    write(connection, clinic, patients)
    until(lambda: len(engine.effects()) == len(patients))
    stop(running)

    admin = AdminClient({"bootstrap.servers": kafka})
    gone = [f"{prefix}dispatch.outcomes", f"{prefix}rajada-dispatch-contacts-changelog"]
    lose(running, admin, gone)
    running.start(*ALL)
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'pending'") == 0)
    time.sleep(2)
    assert [len(engine.requests(contact_id=one.contact_id)) for one in patients] == [1] * len(patients)
    assert value(connection, "SELECT count(*) FROM event_log WHERE outcome = 'job'") == len(patients)
    # the jobs had ended, so no worker tells of them by itself: their rows are those of the beginning
    assert value(connection, "SELECT count(*) FROM job_queue WHERE status = 'pending'") == len(patients)
    again = told(running, "jobs", "ask", "--older-s", "0")
    assert list(again["told"].values()) == ["done"] * len(patients) and not again["unknown"]
    assert value(connection, DONE_JOBS) == len(patients)
    assert [len(engine.requests(contact_id=one.contact_id)) for one in patients] == [1] * len(patients)
    assert told(running, "jobs", "ask", "--older-s", "0", "--dry-run") == {"would_ask": []}
