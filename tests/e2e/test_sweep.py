"""What CDC loses or sends twice: the sweep brings it back, nothing is doubled (BR-48, BR-52)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from uuid import uuid4

import pytest

import status
from ops.clinic import Clinic, Connection, Message, Written
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.topic_reading import murmur2_producer, read_all, records_of
from tests.e2e.waiting import until, value

SOON = {"EVENT_REAP_MS": "500", "RAJADA_SWEEP_EVERY_S": "1"}
DONE = "SELECT count(*) FROM event_log WHERE status = 'done'"
JOBS = "SELECT count(*) FROM job_queue"


def write_unseen(connection: Connection, clinic: Clinic, messages: Sequence[Message]) -> list[Written]:
    """Messages whose events CDC never sees: it publishes what is inserted as pending."""
    with connection.transaction():
        connection.execute("ALTER TABLE event_log ALTER COLUMN status SET DEFAULT 'done'")
        written = clinic.write(connection, messages)
        connection.execute("ALTER TABLE event_log ALTER COLUMN status SET DEFAULT 'pending'")
        ids = [one.event_id for one in written]
        connection.execute("UPDATE event_log SET status = 'pending' WHERE id = ANY (%s)", [ids])
    return written


def counted(running: Processes) -> dict[str, int | str]:
    """The worker's counters."""
    found = status.read_counters(running.status, "worker")
    return {} if found is None else found.values


def test_br_48_three_of_ten_events_that_cdc_lost_get_their_jobs_within_one_period(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = processes(**SOON)
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{number}" for number in range(10)])
    seen = clinic.write(connection, [Message(patient) for patient in patients[:7]])
    lost = write_unseen(connection, clinic, [Message(patient) for patient in patients[7:]])
    until(lambda: value(connection, DONE) == 10, seconds=10)
    swept = {str(row[0]) for row in connection.execute("SELECT event_id FROM rajada.swept").fetchall()}
    assert {one.event_id for one in lost} <= swept
    time.sleep(3)  # further rounds, which find nothing
    assert value(connection, JOBS) == 10
    sources = connection.execute("SELECT source_event_id::text FROM job_queue").fetchall()
    assert {source for (source,) in sources} == {one.event_id for one in [*seen, *lost]}
    records = records_of(kafka, f"{prefix}ai_agent.dispatch_requested")
    assert records == 7 + len(swept), "every lost event was sent once"


@pytest.mark.long
def test_br_52_the_last_thousand_events_sent_again_make_no_job(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = processes()
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{number}" for number in range(100)])
    for _ in range(10):
        clinic.write(connection, [Message(patient) for patient in patients])
    until(lambda: value(connection, DONE) == 1_000, seconds=60, every=0.2)
    jobs, topic = value(connection, JOBS), f"{prefix}ai_agent.dispatch_requested"

    records = read_all(kafka, topic, 1_000)
    # a third of them to a worker that has seen them, the rest to one that starts
    producer = murmur2_producer(kafka)
    for number, record in enumerate(records):
        if number == 333:
            producer.flush(10)
            running.kill("worker")
        producer.produce(topic, record.value(), record.key(), headers=record.headers())
    assert producer.flush(10) == 0
    outcomes = f"{prefix}dispatch.outcomes"
    before = records_of(kafka, outcomes)
    running.start("worker")
    until(lambda: counted(running).get("read", 0) >= 667 and counted(running).get("open") == 0, every=0.2)
    time.sleep(1)
    told = counted(running)
    # that they were sent, the killed worker may not have written down: then they are sent again, as they were
    assert (told["opened"], told["jobs"]) == (0, told["recovered"])
    assert value(connection, JOBS) == jobs
    assert records_of(kafka, outcomes) <= before + int(told["recovered"])
    assert value(connection, DONE) == 1_000


@pytest.mark.long
def test_while_the_sink_is_down_rows_age_and_nothing_is_sent_twice(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = processes(EVENT_REAP_MS="3000", RAJADA_SWEEP_EVERY_S="1", RAJADA_SWEEP_MAX_LAG_S="1")
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{number}" for number in range(20)])
    running.kill("sink")
    clinic.write(connection, [Message(patient) for patient in patients])
    topic = f"{prefix}ai_agent.dispatch_requested"
    until(lambda: str(counted(running).get("sweep", "")).startswith("held: the sink is more than 1 s"))
    assert "sweep_held" in running.log("worker").read_text()
    time.sleep(3)
    assert value(connection, "SELECT count(*) FROM rajada.swept") == 0
    assert records_of(kafka, topic) == 20
    assert counted(running)["sweeps_held"] > 0
    running.start("sink")
    until(lambda: value(connection, DONE) == 20)
    until(lambda: counted(running).get("sweep") == "well")
    assert (value(connection, JOBS), records_of(kafka, topic)) == (20, 20)


def test_an_older_systems_orphans_are_reaped_and_its_live_work_is_left(
    processes: MakeProcesses, connection: Connection
) -> None:
    clinic = Clinic.found(connection, debounce_ms=300)
    ana, bia = clinic.register(connection, ["Ana", "Bia"])
    (orphan,) = clinic.write(connection, [Message(ana)])
    (live,) = clinic.write(connection, [Message(bia)])
    take = "UPDATE event_log SET status = 'processing', attempts = 1, consumed_by = %s, updated_at = %s"
    connection.execute(f"{take} WHERE id = %s", [["agent-engine"], "2026-01-01Z", orphan.event_id])
    connection.execute(f"{take} WHERE id = %s", [["another-system"], "2026-01-01Z", live.event_id])
    running = processes(**SOON)
    running.start()
    until(lambda: value(connection, "SELECT status FROM event_log WHERE id = %s", orphan.event_id) == "done")
    assert value(connection, "SELECT attempts FROM event_log WHERE id = %s", orphan.event_id) == 2
    assert value(connection, "SELECT status FROM event_log WHERE id = %s", live.event_id) == "processing"
    assert value(connection, JOBS) == 1


@pytest.mark.long
def test_a_round_that_postgres_refuses_does_not_end_the_worker_and_the_next_one_goes_on(
    processes: MakeProcesses, connection: Connection
) -> None:
    running = processes(**SOON)
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    (ana,) = clinic.register(connection, ["Ana"])
    connection.execute("ALTER TABLE rajada.leases RENAME TO hidden")
    until(lambda: counted(running).get("sweep") == "failed: Postgres refuses it (42P01)")
    connection.execute("ALTER TABLE rajada.hidden RENAME TO leases")
    (written,) = write_unseen(connection, clinic, [Message(ana)])
    until(lambda: value(connection, "SELECT status FROM event_log WHERE id = %s", written.event_id) == "done")
    assert "worker" in running.alive()


def test_an_event_that_died_with_its_job_made_ends_with_that_job_and_no_other(
    processes: MakeProcesses, connection: Connection
) -> None:
    clinic = Clinic.found(connection, debounce_ms=300)
    (ana,) = clinic.register(connection, ["Ana"])
    (orphan,) = clinic.write(connection, [Message(ana)])
    job_id = str(uuid4())
    connection.execute(
        "INSERT INTO job_queue (id, organization_id, contact_id, kind, source_event_id, status)"
        " VALUES (%s, %s, %s, 'inbound_turn', %s, 'done')",
        [job_id, clinic.organization_id, ana.contact_id, orphan.event_id],
    )
    connection.execute(
        "UPDATE event_log SET status = 'processing', attempts = 1, consumed_by = '{agent-engine}',"
        " updated_at = '2026-01-01Z' WHERE id = %s",
        [orphan.event_id],
    )
    running = processes(**SOON)
    running.start()
    until(lambda: value(connection, "SELECT status FROM event_log WHERE id = %s", orphan.event_id) == "done")
    row = connection.execute(
        "SELECT outcome, job_id::text, attempts FROM event_log WHERE id = %s", [orphan.event_id]
    ).fetchone()
    assert row == ("job", job_id, 1)
    assert value(connection, JOBS) == 1
