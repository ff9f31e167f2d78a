"""RAJADA_JOBS_RUN_BY=table: a CRM's own workers run the jobs while the sink goes on beside them."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from ops.clinic import Clinic, Connection
from ops.clinic import Message as Text
from schemas.codec import decode_job
from tests.e2e.conftest import MakeProcesses
from tests.e2e.stand_ins.processes import StandIn, make_tables, running
from tests.e2e.waiting import until, value

ONCE, TWICE, NEVER = 1, 2, 99
"""How often a contact's jobs fail before they work."""


def all_of(kafka: str, topic: str) -> list[Message]:
    """Every record of a topic."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "reads-all", "enable.partition.eof": True})
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[Message] = []
    left = len(partitions)
    while left:
        record = consumer.poll(5)
        assert record is not None
        if record.error():
            left -= 1
        else:
            found.append(record)
    consumer.close()
    return found


def again(kafka: str, records: list[Message], **headers: str) -> None:
    """Put the same records on their topic once more, perhaps with other headers."""
    producer = Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random"})
    for record in records:
        kept = [(name, content) for name, content in record.headers() or [] if name not in headers]
        producer.produce(
            record.topic() or "",
            key=record.key(),
            value=record.value(),
            partition=record.partition() or 0,
            headers=[*kept, *headers.items()],
        )
    assert producer.flush(10) == 0


def rows(connection: Connection) -> list[tuple[object, ...]]:
    """The whole job queue."""
    return connection.execute("SELECT to_jsonb(j) FROM job_queue j ORDER BY id").fetchall()


def sink_has_all(connection: Connection, kafka: str, prefix: str) -> bool:
    """Whether every outcome is applied."""
    topic = f"{prefix}dispatch.outcomes"
    query = "SELECT partition, next_offset FROM rajada.sink_offsets WHERE topic = %s"
    offsets = dict(connection.execute(query, [topic]).fetchall())
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": "ends"})
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1] for p in offsets}
    consumer.close()
    return bool(offsets) and ends == offsets


@pytest.mark.long
def test_the_crms_workers_run_every_job_once_and_nothing_brings_a_row_back(
    processes: MakeProcesses, connection: Connection, database: str, kafka: str, prefix: str, tmp_path: Path
) -> None:
    make_tables(database)
    ours = processes(RAJADA_JOBS_RUN_BY="table")
    workers = [StandIn("job_worker", database, f"crm-{n}", tmp_path / f"crm-{n}.log") for n in (1, 2)]
    with running(*workers):
        ours.start()
        clinic = Clinic.found(connection, debounce_ms=200)
        patients = clinic.register(connection, [f"p{n}" for n in range(24)])
        failing = dict(zip(patients, [ONCE] * 4 + [TWICE] * 3 + [NEVER] * 2, strict=False))
        for patient, failures in failing.items():
            connection.execute("INSERT INTO crm_script VALUES (%s, %s)", [patient.contact_id, failures])
        for burst in range(4):
            for patient in patients:
                clinic.write(connection, [Text(patient)] * 3)
            if burst == 1:
                ours.kill("sink", signal.SIGKILL)
                ours.spawn("sink")
            time.sleep(0.7)
        until(lambda: value(connection, "SELECT count(*) FROM event_log WHERE status <> 'done'") == 0)
        unfinished = "SELECT count(*) FROM job_queue WHERE status NOT IN ('done', 'dead')"
        until(lambda: value(connection, unfinished) == 0, seconds=60)

        check_answers(connection, {one.contact_id for one, times in failing.items() if times == NEVER})
        records = all_of(kafka, f"{prefix}dispatch.jobs")
        jobs = [decode_job(record.value() or b"") for record in records]
        assert {job.run_by for job in jobs} == {"table"}
        assert {job.id for job in jobs} == {
            id_ for (id_,) in connection.execute("SELECT id::text FROM job_queue").fetchall()
        }

        # outcomes sent again, a sink that begins anew, the source topic replayed; some rows were tidied away
        connection.execute(
            "DELETE FROM job_queue WHERE id IN (SELECT id FROM job_queue WHERE status = 'done' LIMIT 5)"
        )
        before = rows(connection)
        runs = value(connection, "SELECT count(*) FROM crm_runs")
        again(kafka, all_of(kafka, f"{prefix}dispatch.outcomes"))
        until(lambda: sink_has_all(connection, kafka, prefix))
        ours.kill("sink", signal.SIGTERM)
        connection.execute("UPDATE rajada.sink_offsets SET next_offset = 0")
        ours.start("sink")
        source = all_of(kafka, f"{prefix}ai_agent.dispatch_requested")
        again(kafka, source)
        again(kafka, source, replay="1790000000000")
        ours.kill("worker", signal.SIGKILL)
        ours.start("worker")
        told = "SELECT count(DISTINCT event_id) FROM rajada.trace WHERE replay = 1790000000000"
        until(lambda: value(connection, told) == len(source), seconds=60)
        until(lambda: sink_has_all(connection, kafka, prefix))
        time.sleep(0.5)
        assert rows(connection) == before
        assert value(connection, "SELECT count(*) FROM crm_runs") == runs
    assert set(ours.alive()) == {"relay", "worker", "sink"}


def check_answers(connection: Connection, hopeless: set[str]) -> None:
    """Every event of a job is answered once, save those whose jobs never work: they are dead."""
    # a window that closed late on a busy machine may find a newer message, whose job answers
    told = dict(connection.execute("SELECT outcome, count(*) FROM event_log GROUP BY outcome").fetchall())
    assert set(told) <= {"job", "superseded_by_newer_inbound"}
    of_dead = connection.execute(
        "SELECT count(*), count(DISTINCT contact_id)"
        " FROM job_queue, jsonb_array_elements(payload->'event_ids')"
        " WHERE status = 'dead' AND attempts = 5 AND last_error = 'HTTP 503'"
    ).fetchone()
    answered = connection.execute("SELECT count(*), count(DISTINCT event_id) FROM crm_answers").fetchone()
    assert of_dead is not None and answered is not None
    assert of_dead[1] == len(hopeless)
    assert answered[0] == answered[1], "no event is answered twice"
    assert answered[0] + of_dead[0] == told["job"], "none is lost"
    spent = (
        "SELECT count(*) FROM job_queue j WHERE attempts <> (SELECT count(*) FROM crm_runs WHERE job_id = id)"
    )
    assert value(connection, spent) == 0
    retried = value(connection, "SELECT count(*) FROM job_queue WHERE status = 'done' AND attempts > 1")
    assert retried, "failures were tried again by the CRM's workers"
    assert value(connection, "SELECT count(DISTINCT worker) FROM crm_runs") == 2
