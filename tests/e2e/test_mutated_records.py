"""Whatever is on the topics: records that were cut, flipped, joined or made up, through the real processes.

None ends a process or keeps a partition from going on, and what was read from the log is accounted for.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Producer

import status
from ops.clinic import Clinic, Connection, Message, Patient
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from schemas import topic_names
from schemas.codec import encode_command, encode_job, encode_outcome
from schemas.records import Command, Outcome
from streams.counting import Counts
from streams.due import DELAY_TOPICS
from streams.partitioner import partition_of
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value
from tests.unit.builders import row, row_bytes
from tests.unit.job_worlds import job_of, uuid

PARTITIONS = 8
EACH = 150
"""Records a topic."""
SEED = 20_261_130
NAMES = (b"replay", b"again", b"cdc_source_ts_ms", b"rekeyed", b"unknown-since", b"due-ms", b"forward-to")
RUNNING = ("relay", "worker", "sink", "delays")

GOOD: dict[str, bytes] = {
    topic_names.SOURCE: row_bytes(),
    topic_names.GROUP_LINKS: json.dumps(row(event_type=topic_names.GROUP_LINKS)).encode(),
    topic_names.JOBS: encode_job(job_of(1)),
    topic_names.CONTROL: encode_command(Command(id=uuid(7), at_ms=1, action="hold", job_id=uuid(8))),
    topic_names.OUTCOMES: encode_outcome(
        Outcome(
            organization_id=uuid(2),
            contact_id=uuid(4),
            at_ms=1,
            stage="execute",
            events=(),
            status="done",
            outcome="done",
            job_id=uuid(8),
            job=job_of(1),
            job_status="done",
        )
    ),
    **dict.fromkeys(DELAY_TOPICS, encode_job(job_of(2))),
}
"""A good record of each topic that a process of ours reads, beside the changelogs, which are ours alone."""


def mutated(good: bytes, randomly: random.Random) -> bytes | None:
    """A good record with one to four things done to it; seldom none at all, or no record's."""
    if randomly.random() < 0.05:
        return randomly.choice([None, b"", randomly.randbytes(200), b"[" * 5_000, b'{"a":' * 3_000])
    value = bytearray(good)
    for _ in range(randomly.randint(1, 4)):
        at = randomly.randrange(len(value)) if value else 0
        match randomly.choice(["flip", "cut", "double", "insert", "length"]):
            case "flip" if value:
                value[at] ^= randomly.randint(1, 255)
            case "cut":
                del value[at : at + randomly.randint(1, 40)]
            case "double":
                value[at:at] = value[at : at + randomly.randint(1, 40)]
            case "length":
                value[at:at] = b"\xfe\xff\xff\xff\xff\xff\xff\x7f"[: randomly.randint(1, 8)]
            case _:
                value[at:at] = randomly.randbytes(randomly.randint(1, 12))
    return bytes(value)


def headers(randomly: random.Random) -> list[tuple[str, bytes | None]]:
    """Some of our own headers, with anything in them."""
    names = randomly.sample(NAMES, randomly.randint(0, 3))
    contents = (None, b"", b"1", b"-1", b"9" * 30, b"\xff", b"nowhere", str(time.time_ns()).encode())
    return [(name.decode(), randomly.choice(contents)) for name in names]


def storm(kafka: str, prefix: str) -> Iterator[str]:
    """Put the mutated records into every partition of every topic; yields the topics' names."""
    randomly = random.Random(SEED)
    producer = Producer({"bootstrap.servers": kafka, "log_level": 2})
    for topic, good in GOOD.items():
        for number in range(EACH):
            key = randomly.choice([None, b"k", f"{uuid(2)}:{uuid(4)}".encode(), randomly.randbytes(20)])
            producer.produce(
                f"{prefix}{topic}",
                key=key,
                value=mutated(good, randomly),
                partition=number % PARTITIONS,
                headers=headers(randomly),
            )
        yield topic
    assert producer.flush(20) == 0


def one_a_partition(clinic: Clinic, connection: Connection) -> list[Patient]:
    """A patient for each partition, so that a message of each passes whatever lies there."""
    found: dict[int, Patient] = {}
    for patient in clinic.register(connection, [f"p{number}" for number in range(80)]):
        key = f"{clinic.organization_id}:{patient.contact_id}".encode()
        found.setdefault(partition_of(key, PARTITIONS), patient)
    assert len(found) == PARTITIONS
    return list(found.values())


def counted(running: Processes) -> dict[str, int]:
    """What the worker has counted."""
    found = status.read_counters(running.status, "worker")
    return {
        name: number
        for name, number in (found.values if found else {"read": 0}).items()
        if isinstance(number, int)
    }


@pytest.mark.long
def test_no_record_ends_a_process_or_stops_a_partition_and_each_is_accounted_for(
    processes: MakeProcesses, connection: Connection, engine: EngineBeside, kafka: str, prefix: str
) -> None:
    engine.treat(Scenario(mode="rate", retry_after="1", times=1))  # each turn passes a delay topic, too
    running = processes(AGENT_ENGINE_URL=engine.url, RAJADA_PERSON_SPACING_MS="0", RAJADA_STOP_GRACE_S="1")
    running.start(*RUNNING)
    assert set(storm(kafka, prefix)) == GOOD.keys()
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = one_a_partition(clinic, connection)
    for patient in patients:
        clinic.write(connection, [Message(patient)])
    done = "SELECT count(*) FROM job_queue WHERE organization_id = %s AND status = 'done'"
    until(
        lambda: value(connection, done, clinic.organization_id) == len(patients),
        seconds=120,
        told=lambda: (sorted(running.alive()), running.log("worker").read_text()[-3_000:]),
    )
    assert set(running.alive()) == set(RUNNING)
    until(lambda: counted(running)["read"] >= EACH + len(patients))
    worker = counted(running)
    assert (
        worker["read"]
        == sum(worker[place] for place in Counts().places() if place != "dead") + worker["dead_letters"]
    )
