"""A worker with a name that outlives its process, as a pod of a StatefulSet has one (docs/deploy.md)."""

from __future__ import annotations

import time

import pytest
from confluent_kafka.admin import AdminClient

from ops.clinic import Clinic, Connection, Message
from schemas.topic_names import APP_ID
from tests.e2e.conftest import MakeProcesses
from tests.e2e.waiting import until, value

SESSION_S = 20.0


@pytest.mark.long
def test_a_worker_that_is_killed_and_back_takes_its_partitions_without_waiting_for_its_session(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    made = processes(CONSUMER_GROUP_INSTANCE_ID="worker-0", RAJADA_SESSION_TIMEOUT_S=str(SESSION_S))
    made.start()
    admin = AdminClient({"bootstrap.servers": kafka, "log_level": 2})
    group = f"{prefix}{APP_ID}"
    told = admin.describe_consumer_groups([group])[group].result(10)
    assert [member.group_instance_id for member in told.members] == ["worker-0"]

    clinic = Clinic.found(connection, debounce_ms=300)
    (ana,) = clinic.register(connection, ["Ana"])
    clinic.write(connection, [Message(ana)])
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == 1)
    made.kill("worker")
    clinic.write(connection, [Message(ana)])
    began = time.monotonic()
    made.start("worker")
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == 2)
    assert time.monotonic() - began < SESSION_S, "a member without a name would have been waited for"
    assert value(connection, "SELECT count(*) FROM job_queue") == 2
