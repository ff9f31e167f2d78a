"""Bad input on the topic: a clear outcome each, and the worker lives."""

from __future__ import annotations

import json
import time
from uuid import uuid4

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka import Message as Record

from ops.clinic import Clinic, Connection, Message, Patient
from schemas.codec import encode_event
from tests.e2e.conftest import MakeProcesses
from tests.e2e.topic_reading import murmur2_producer, read_all
from tests.e2e.waiting import until, value


def dead_letters(kafka: str, prefix: str, count: int) -> list[Record]:
    """Reads `count` records of the dead letter topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": str(uuid4()), "enable.auto.commit": False})
    topic = f"{prefix}dispatch.dead"
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[Record] = []
    deadline = time.monotonic() + 20
    while len(found) < count and time.monotonic() < deadline:
        record = consumer.poll(0.2)
        if record is not None and not record.error():
            found.append(record)
    consumer.close()
    return found


def reason_of(letter: Record) -> str:
    """Why a dead letter died."""
    return dict(letter.headers() or [])["reason"].decode()


def test_each_kind_of_bad_record_has_its_outcome_and_the_worker_lives(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = processes()
    running.start()
    # longer than it takes to put records right: what is put right later opens a window of its own
    clinic = Clinic.found(connection, debounce_ms=3_000)
    ana, bia, caio, davi = clinic.register(connection, ["Ana", "Bia", "Caio", "Davi"])

    def row(patient: object, **changes: object) -> dict[str, object]:
        payload = {
            "conversation_id": patient.conversation_id,  # type: ignore[attr-defined]
            "contact_id": patient.contact_id,  # type: ignore[attr-defined]
            "channel_session_id": clinic.session_id,
            "inbound_message_id": str(uuid4()),
        }
        return {
            "id": str(uuid4()),
            "organization_id": clinic.organization_id,
            "event_type": "ai_agent.dispatch_requested",
            "payload": json.dumps(payload),
            **changes,
        }

    def key(patient: object) -> bytes:
        return f"{clinic.organization_id}:{patient.contact_id}".encode()  # type: ignore[attr-defined]

    avro = encode_event(row(ana))
    bad: list[tuple[bytes | None, bytes | None, str]] = [
        (b"k", b"hello, not JSON", "not_json"),
        (None, b"\xff\xfe", "not_json"),
        (b"k", None, "null_value"),
        (b"k", b"[1, 2]", "not_an_event"),
        (b"k", avro[:40], "bad_avro"),
        (b"k", avro[:2] + b"\x00" * 8 + avro[10:], "unknown_schema"),
        (b"k", json.dumps(row(ana, event_type="message.created")).encode(), "wrong_event_type"),
    ]
    topic = f"{prefix}ai_agent.dispatch_requested"
    producer = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random"})
    for one_key, content, reason in bad:
        # nobody knew it for an hour; the first time it is met it waits
        headers = {"unknown-since": "1"} if reason == "unknown_schema" else {}
        producer.produce(topic, key=one_key, value=content, headers=headers)
    of_tomorrow = avro[:2] + b"tomorrow" + avro[10:]
    producer.produce(topic, key=key(ana), value=of_tomorrow)
    invalid = row(ana, payload=json.dumps({"conversation_id": "abc"}))
    producer.produce(topic, key=key(ana), value=json.dumps(invalid))
    # put right once: no key, another's key, the right key in the wrong partition
    hand_made = [row(bia), row(caio), row(davi)]
    producer.produce(topic, key=None, value=json.dumps(hand_made[0]))
    producer.produce(topic, key=key(ana), value=json.dumps(hand_made[1]))
    for partition in range(8):
        copy = {**hand_made[2], "id": str(uuid4())} if partition else hand_made[2]
        producer.produce(topic, key=key(davi), value=json.dumps(copy), partition=partition)
    # wrong after it was put right: a dead letter
    producer.produce(topic, key=key(ana), value=json.dumps(row(bia)), headers={"rekeyed": "1"})
    producer.flush(10)

    letters = dead_letters(kafka, prefix, len(bad) + 1)
    told = {(reason_of(one), one.key(), one.value()) for one in letters}
    mismatches = {one for one in told if one[0] == "key_mismatch"}
    assert told - mismatches == {(reason, one_key, content) for one_key, content, reason in bad}
    assert len(mismatches) == 1 and len(letters) == len(bad) + 1
    for one in letters:
        headers = dict(one.headers() or [])
        assert headers["kafka_dlt-original-topic"] == topic.encode()
        assert headers["stage"] == b"collect"

    (waits,) = read_all(kafka, f"{prefix}dispatch.delay.1m", 1)
    assert (waits.key(), waits.value()) == (key(ana), of_tomorrow)
    assert dict(waits.headers() or [])["forward-to"] == b"ai_agent.dispatch_requested"

    # nobody dies in silence: an alert for the platform, one for the clinic, and a trace each
    told_of = "SELECT sum(occurrences) FROM agent_inbox_items WHERE organization_id {}"
    until(lambda: value(connection, told_of.format("IS NULL")) == len(bad))
    until(lambda: value(connection, told_of.format("IS NOT NULL")) == 1)
    assert value(connection, "SELECT count(*) FROM agent_inbox_items") == 2
    assert value(connection, "SELECT count(*) FROM rajada.trace WHERE status = 'dead'") == len(bad) + 1

    jobs = "SELECT count(*) FROM job_queue WHERE contact_id = %s"
    for patient in (bia, caio, davi):
        until(lambda contact=patient.contact_id: value(connection, jobs, contact) == 1)
    until(
        lambda: (
            value(connection, "SELECT outcome FROM rajada.trace WHERE event_id = %s", invalid["id"])
            == "invalid_payload"
        )
    )
    (written,) = clinic.write(connection, [Message(ana)])
    until(lambda: value(connection, "SELECT status FROM event_log WHERE id = %s", written.event_id) == "done")
    assert set(running.alive()) == {"relay", "worker", "sink"}


def test_an_event_id_used_under_two_contacts_is_one_job_and_the_second_is_told(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    """Made by hand, at once and later; and a copy under another contact of an event that is in the log."""
    running = processes()
    running.start()
    clinic = Clinic.found(connection, debounce_ms=1_000)
    ana, bia, caio = clinic.register(connection, ["Ana", "Bia", "Caio"])
    producer = murmur2_producer(kafka)

    def produce(event_id: str, patient: Patient) -> None:
        payload = {
            "conversation_id": patient.conversation_id,
            "contact_id": patient.contact_id,
            "channel_session_id": clinic.session_id,
            "inbound_message_id": str(uuid4()),
        }
        row = {
            "id": event_id,
            "organization_id": clinic.organization_id,
            "event_type": "ai_agent.dispatch_requested",
            "payload": payload,
        }
        key = f"{clinic.organization_id}:{patient.contact_id}"
        producer.produce(f"{prefix}ai_agent.dispatch_requested", key=key, value=json.dumps(row))
        assert producer.flush(10) == 0

    told = (
        "SELECT count(*) FROM rajada.trace WHERE event_id = %s AND contact_id = %s"
        " AND outcome = 'deduplicated' AND facts -> 'of_another_contact' ? event_id::text"
    )
    contacts = "SELECT contact_id::text FROM job_queue WHERE source_event_id = %s"

    twice = str(uuid4())
    produce(twice, ana)
    produce(twice, bia)
    until(lambda: value(connection, contacts, twice) is not None)
    winner = value(connection, contacts, twice)
    second = bia if winner == ana.contact_id else ana
    until(lambda: value(connection, told, twice, second.contact_id) == 1)
    produce(twice, caio)
    until(lambda: value(connection, told, twice, caio.contact_id) == 1)
    assert "another contact's" in running.rajada("why", twice).stdout

    (written,) = clinic.write(connection, [Message(ana)])
    produce(written.event_id, bia)
    until(lambda: value(connection, told, written.event_id, bia.contact_id) == 1)
    until(lambda: value(connection, contacts, written.event_id) == ana.contact_id)
    assert value(connection, "SELECT count(*) FROM job_queue") == 2
    assert set(running.alive()) == {"relay", "worker", "sink"}
