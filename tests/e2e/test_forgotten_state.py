"""Everything read again with nothing remembered: stop 0 is the sure one."""

from __future__ import annotations

import signal

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from ops.clinic import Clinic, Connection, Message
from tests.e2e.conftest import MakeProcesses
from tests.e2e.waiting import until, value

EVENTS = 1_000


@pytest.mark.long
def test_an_offset_reset_without_the_contacts_state_makes_no_second_job(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = processes()
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{number}" for number in range(100)])
    for _ in range(EVENTS // len(patients)):
        clinic.write(connection, [Message(patient) for patient in patients])
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == EVENTS)
    before = connection.execute("SELECT id, status, outcome_seq FROM job_queue ORDER BY id").fetchall()
    rows = connection.execute("SELECT id, outcome, job_id, outcome_seq FROM event_log ORDER BY id").fetchall()

    assert running.kill("worker", signal.SIGTERM) == 0
    admin = AdminClient({"bootstrap.servers": kafka})
    changelog = f"{prefix}rajada-dispatch-contacts-changelog"
    admin.delete_topics([changelog])[changelog].result(10)
    until(lambda: changelog not in admin.list_topics(timeout=10).topics)
    source = f"{prefix}ai_agent.dispatch_requested"
    group = f"{prefix}rajada-dispatch"
    start = [TopicPartition(source, number, 0) for number in range(8)]
    admin.alter_consumer_group_offsets([ConsumerGroupTopicPartitions(group, start)])[group].result(10)
    running.start("worker")

    again = "SELECT count(DISTINCT event_id) FROM rajada.trace WHERE outcome = 'deduplicated'"
    until(lambda: value(connection, again) == EVENTS, seconds=90)
    assert (
        connection.execute("SELECT id, status, outcome_seq FROM job_queue ORDER BY id").fetchall() == before
    )
    assert (
        connection.execute("SELECT id, outcome, job_id, outcome_seq FROM event_log ORDER BY id").fetchall()
        == rows
    )
