"""Records with header names that are no text, on every topic that is read: nobody ends, nothing is lost."""

from __future__ import annotations

import asyncio
import json
from uuid import uuid4

from ops.clinic import Clinic, Connection
from ops.engine.serving import EngineBeside
from schemas.codec import encode_job
from schemas.topic_names import CONTROL, DEAD, GROUP_LINKS, JOBS, OUTCOMES, SOURCE
from tests import raw_names
from tests.e2e.conftest import MakeProcesses
from tests.e2e.topic_reading import read_all
from tests.e2e.waiting import until, value
from tests.unit.job_worlds import job_of

NAME = b"\xff\xfe\x00"
NONSENSE = b"\xff no record of ours"


def test_no_name_of_a_header_ends_a_process_and_dead_letters_keep_their_bytes(
    processes: MakeProcesses, connection: Connection, engine: EngineBeside, kafka: str, prefix: str
) -> None:
    running = processes(AGENT_ENGINE_URL=engine.url)
    running.start("worker", "sink", "delays")
    clinic = Clinic.found(connection, debounce_ms=300)
    (ana,) = clinic.register(connection, ["Ana"])
    payload = {
        "conversation_id": ana.conversation_id,
        "contact_id": ana.contact_id,
        "channel_session_id": clinic.session_id,
        "inbound_message_id": str(uuid4()),
    }
    row = {
        "id": str(uuid4()),
        "organization_id": clinic.organization_id,
        "event_type": "ai_agent.dispatch_requested",
        "payload": payload,
    }
    key = f"{clinic.organization_id}:{ana.contact_id}".encode()
    topics = [SOURCE, GROUP_LINKS, JOBS, CONTROL, OUTCOMES]
    unknown = encode_job(job_of(1, kind="fax"))

    async def produce() -> None:
        for topic in topics:
            await raw_names.produce(kafka, prefix + topic, key, NONSENSE, NAME)
        await raw_names.produce(kafka, f"{prefix}{JOBS}", key, unknown, NAME)
        await raw_names.produce(kafka, f"{prefix}dispatch.delay.100ms", key, NONSENSE, NAME)
        await raw_names.produce(kafka, prefix + SOURCE, key, json.dumps(row).encode(), NAME)

    asyncio.run(produce())
    done = "SELECT count(*) FROM job_queue WHERE source_event_id = %s AND status = 'done'"
    until(lambda: value(connection, done, row["id"]) == 1, 40)
    letters = read_all(kafka, f"{prefix}{DEAD}", len(topics) + 2)
    values = sorted(letter.value() or b"" for letter in letters)
    assert values == sorted([NONSENSE] * (len(topics) + 1) + [unknown])
    assert all(letter.key() == key for letter in letters)
    origins = {dict(letter.headers() or ())["kafka_dlt-original-topic"].decode() for letter in letters}
    assert origins == {prefix + topic for topic in [*topics, "dispatch.delay.100ms"]}
    assert set(running.alive()) == {"worker", "sink", "delays"}
