"""Whatever codec a producer or the topic uses, the worker reads it."""

from __future__ import annotations

import json
from uuid import uuid4

from confluent_kafka import Producer

from ops.clinic import Clinic, Connection
from tests.e2e.conftest import MakeProcesses
from tests.e2e.waiting import until, value

CODECS = ("gzip", "snappy", "lz4", "zstd")


def test_records_of_every_codec_become_jobs(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    processes().start()
    clinic = Clinic.found(connection, debounce_ms=200)
    for codec, patient in zip(CODECS, clinic.register(connection, CODECS), strict=True):
        payload = {
            "conversation_id": patient.conversation_id,
            "contact_id": patient.contact_id,
            "channel_session_id": clinic.session_id,
            "inbound_message_id": str(uuid4()),
            "extra": "x" * 5_000,  # what would not shrink is sent as it is
        }
        row = {
            "id": str(uuid4()),
            "organization_id": clinic.organization_id,
            "event_type": "ai_agent.dispatch_requested",
            "payload": json.dumps(payload),
        }
        producer = Producer(
            {"bootstrap.servers": kafka, "compression.type": codec, "partitioner": "murmur2_random"}
        )
        key = f"{clinic.organization_id}:{patient.contact_id}"
        producer.produce(f"{prefix}ai_agent.dispatch_requested", key=key, value=json.dumps(row))
        producer.flush(10)
    until(lambda: value(connection, "SELECT count(*) FROM job_queue") == len(CODECS))
