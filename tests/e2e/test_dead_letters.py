"""Dead letters of the collecting stage: any bytes, any size, and forgotten with their contact."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from confluent_kafka import KafkaError, Producer
from confluent_kafka import Message as Record

from ops.clinic import Clinic, Connection, Message
from streams.topics import SOURCE_MAX_BYTES
from tests.e2e.conftest import MakeProcesses
from tests.e2e.test_operator import rajada, told
from tests.e2e.topic_reading import read_all, records_of
from tests.e2e.waiting import until, value

SOURCE = "ai_agent.dispatch_requested"


@pytest.mark.long
def test_br_40_a_record_as_large_as_the_source_allows_dies_whole(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    """Garbage of the topic's limit to a few bytes: it is a dead letter, and the offset moves on."""
    running = processes(RAJADA_SESSION_TIMEOUT_S="8")
    running.start("worker", "sink")
    producer = Producer({"bootstrap.servers": kafka, "message.max.bytes": 64 * 1024 * 1024})
    refused: list[int] = []

    def delivered(error: KafkaError | None, message: Record) -> None:
        if error is not None:
            assert error.code() == KafkaError.MSG_SIZE_TOO_LARGE
            refused.append(error.code())

    # a record's framing takes some bytes of the limit: from the last that fits to the first that does not
    sizes = range(SOURCE_MAX_BYTES - 100, SOURCE_MAX_BYTES - 50, 10)
    for size in sizes:
        producer.produce(f"{prefix}{SOURCE}", b"\xff" * size, on_delivery=delivered)
        assert producer.flush(60) == 0
    assert 0 < len(refused) < len(sizes), "the limit lies between them"
    largest = sizes[-1 - len(refused)]
    dead = f"{prefix}dispatch.dead"
    sent = records_of(kafka, f"{prefix}{SOURCE}")
    until(lambda: records_of(kafka, dead) == sent)
    assert max(len(one.value() or b"") for one in read_all(kafka, dead, sent)) == largest
    # whatever it carries now may not fit again: then it stays, and says so
    listed = told(running, "dlq", "ls", "--list")["newest"]
    largest_of_all = rajada(running, "dlq", "requeue", listed[0]["place"], "--yes", code=10)
    assert "above max.message.bytes" in largest_of_all

    # whoever compresses puts in more than the limit: no topic takes it as it is, and no worker ends for it
    small = Producer(
        {"bootstrap.servers": kafka, "message.max.bytes": 64 * 1024 * 1024, "compression.type": "gzip"}
    )
    small.produce(f"{prefix}{SOURCE}", b"\xff" * (2 * SOURCE_MAX_BYTES))
    assert small.flush(60) == 0
    until(lambda: records_of(kafka, dead) == sent + 1)
    (left_out,) = [one for one in read_all(kafka, dead, sent + 1) if one.value() is None]
    assert dict(left_out.headers() or [])["value-left-out"] == str(2 * SOURCE_MAX_BYTES).encode()
    assert set(running.alive()) == {"worker", "sink"}


@pytest.mark.long
def test_a_contact_is_forgotten_by_the_worker_too(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = processes(RAJADA_SESSION_TIMEOUT_S="8", RAJADA_RETRY_DELAY_MS="50")
    running.start("relay", "worker", "sink")
    clinic = Clinic.found(connection, debounce_ms=200)
    (ana,) = clinic.register(connection, ["Ana"])
    (lost,) = clinic.write(connection, [Message(ana)])
    ghost, event = str(uuid4()), str(uuid4())
    payload = {
        "conversation_id": ana.conversation_id,
        "contact_id": ghost,
        "channel_session_id": clinic.session_id,
        "inbound_message_id": lost.message_id,
    }
    connection.execute(
        "INSERT INTO event_log (id, organization_id, event_type, payload) VALUES (%s, %s, %s, %s)",
        [event, clinic.organization_id, SOURCE, json.dumps(payload)],
    )
    until(lambda: value(connection, "SELECT status FROM event_log WHERE id = %s", event) == "dead")
    until(lambda: told(running, "dlq", "ls", "--id", event)["letters"] == 1)
    found = told(running, "forget", ghost, "--yes")
    assert found["jobs_left"] == 0, "the worker has told"
    assert found["erased"]["letters"] == 1 and found["erased"]["trace"] >= 2
    assert value(connection, "SELECT count(*) FROM rajada.trace WHERE contact_id = %s", ghost) == 0
    assert told(running, "dlq", "ls")["letters"] == 0
    for letter in read_all(kafka, f"{prefix}dispatch.dead", 5):
        assert ghost.encode() not in b"".join(filter(None, (letter.key(), letter.value())))
    assert "dead" in rajada(running, "why", event), "that it died is still told"
