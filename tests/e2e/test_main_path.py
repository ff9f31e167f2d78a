"""Insert rows, see jobs: the whole way on real Kafka and Postgres."""

from __future__ import annotations

import time
from functools import partial

import pytest
from confluent_kafka import Producer

from ops.clinic import Clinic, Connection, Message
from streams.identifiers import job_id
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

WINDOW_MS = 1_000


@pytest.fixture
def running(processes: MakeProcesses) -> Processes:
    """All three processes, ready."""
    made = processes()
    made.start()
    return made


def test_a_burst_becomes_one_job_row_and_the_state_comes_back(
    running: Processes, connection: Connection
) -> None:
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    ana, bia = clinic.register(connection, ["Ana", "Bia"])
    burst = [clinic.write(connection, [Message(ana)])[0] for _ in range(5)]
    other = clinic.write(connection, [Message(bia)])[0]
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == 6)
    rows = connection.execute(
        "SELECT id::text, source_event_id::text, payload, status, attempts, max_attempts, priority"
        " FROM job_queue WHERE contact_id = %s",
        [ana.contact_id],
    ).fetchall()
    assert len(rows) == 1
    (job, source, payload, state, attempts, max_attempts, priority) = rows[0]
    assert job == job_id(clinic.organization_id, burst[0].event_id)
    assert source == burst[0].event_id
    assert isinstance(payload, dict)
    assert payload["inbound_message_id"] == burst[-1].message_id
    assert payload["event_ids"] == [one.event_id for one in burst]
    assert (state, attempts, max_attempts, priority) == ("pending", 0, 5, 100)
    events = connection.execute(
        "SELECT DISTINCT status, outcome, job_id::text, attempts, consumed_by, last_error FROM event_log"
        " WHERE id = ANY (%s)",
        [[one.event_id for one in burst]],
    ).fetchall()
    assert events == [("done", "job", job, 1, ["agent-engine"], None)]
    assert value(connection, "SELECT count(*) FROM job_queue WHERE source_event_id = %s", other.event_id) == 1


@pytest.mark.alone
def test_a_lone_message_on_an_idle_system_has_its_job_within_300_ms_of_its_window(
    running: Processes, connection: Connection
) -> None:
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    beyond = []
    query = "SELECT 1 FROM job_queue WHERE source_event_id = %s"
    for patient in clinic.register(connection, [f"p{n}" for n in range(5)]):
        began = time.monotonic()
        (written,) = clinic.write(connection, [Message(patient)])
        until(partial(value, connection, query, written.event_id), every=0.002)
        beyond.append((time.monotonic() - began) * 1000 - WINDOW_MS)
        time.sleep(0.7)  # longer than a fetch waits, so that the system is idle again
    assert min(beyond) >= 0, "never early"
    assert sorted(beyond)[len(beyond) // 2] <= 300, beyond


def test_the_same_event_twice_is_one_job(
    running: Processes, connection: Connection, kafka: str, prefix: str
) -> None:
    clinic = Clinic.found(connection, debounce_ms=WINDOW_MS)
    (ana,) = clinic.register(connection, ["Ana"])
    (written,) = clinic.write(connection, [Message(ana)])
    key = f"{clinic.organization_id}:{ana.contact_id}"
    row = connection.execute(
        "SELECT jsonb_build_object('id', id, 'organization_id', organization_id, 'event_type', event_type,"
        " 'payload', payload::text)::text FROM event_log WHERE id = %s",
        [written.event_id],
    ).fetchone()
    assert row is not None
    producer = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random"})
    topic = f"{prefix}ai_agent.dispatch_requested"
    producer.produce(topic, key=key, value=str(row[0]))
    producer.flush(10)
    until(lambda: value(connection, "SELECT count(*) FROM job_queue") == 1)
    producer.produce(topic, key=key, value=str(row[0]))
    producer.flush(10)
    (bia,) = clinic.register(connection, ["Bia"])
    clinic.write(connection, [Message(bia)])
    until(lambda: value(connection, "SELECT count(*) FROM job_queue") == 2)
    time.sleep(1.5)
    assert value(connection, "SELECT count(*) FROM job_queue WHERE contact_id = %s", ana.contact_id) == 1
