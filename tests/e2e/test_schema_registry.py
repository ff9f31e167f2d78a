"""The main path with a schema registry: Confluent's wire format from the worker to the sink."""

from __future__ import annotations

import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer
from confluent_kafka.serialization import MessageField, SerializationContext

from ops.clinic import Clinic, Connection, Message
from ops.embedded.registry import EmbeddedRegistry
from tests.e2e.conftest import MakeProcesses
from tests.e2e.topic_reading import read_all
from tests.e2e.waiting import until, value


@pytest.mark.long
def test_a_burst_becomes_one_job_in_confluents_format_and_goes_on_while_the_registry_is_away(
    processes: MakeProcesses,
    connection: Connection,
    kafka: str,
    prefix: str,
    registry_url: str,
    registry_server: EmbeddedRegistry,
) -> None:
    made = processes(SCHEMA_REGISTRY_URL=registry_url)
    too_early = made.rajada("sink")
    assert too_early.returncode == 3 and "run `rajada schemas register` first" in too_early.stderr
    assert made.rajada("schemas", "register").returncode == 0
    made.start()
    clinic = Clinic.found(connection, debounce_ms=3_000)  # so that one window holds the burst anywhere
    ana, bia = clinic.register(connection, ["Ana", "Bia"])
    for _ in range(3):
        clinic.write(connection, [Message(ana)])
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == 3)
    (record,) = read_all(kafka, f"{prefix}dispatch.jobs", 1)
    job = record.value()
    assert job is not None and job.startswith(b"\x00")
    told = AvroDeserializer(SchemaRegistryClient({"url": registry_url}))(
        job, SerializationContext("any", MessageField.VALUE)
    )
    assert told["contact_id"] == ana.contact_id and len(told["events"]) == 3

    registry_server.kill()
    made.kill("sink")
    made.start("sink")
    clinic.write(connection, [Message(bia)])
    until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status = 'done'") == 4)
    assert value(connection, "SELECT count(*) FROM job_queue") == 2
