"""Partitions move while jobs are merged, held, running and cancelled: each stays what it is."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from uuid import uuid4

import pytest

from ops.clinic import Clinic, Connection, Message, Patient
from ops.engine.scenario import Scenario
from ops.engine.serving import EngineBeside
from schemas.codec import encode_command
from schemas.records import Action, Command
from schemas.topic_names import CONTROL
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.topic_reading import murmur2_producer
from tests.e2e.waiting import until, value

pytestmark = pytest.mark.long

OF_EACH = 6
JOBS_OF = "SELECT id::text, status::text FROM job_queue WHERE contact_id = ANY (%s) ORDER BY created_at, id"
HELD = "SELECT count(*) FROM job_queue WHERE contact_id = ANY (%s) AND run_after = 'infinity'"


def test_moves_of_partitions_and_a_frozen_worker_leave_every_job_where_it_is(
    processes: MakeProcesses,
    connection: Connection,
    engine: EngineBeside,
    tmp_path: Path,
    kafka: str,
    database: str,
    prefix: str,
) -> None:
    settings = {
        "AGENT_ENGINE_URL": engine.url,
        "RAJADA_PERSON_SPACING_MS": "0",
        "RAJADA_HANDOVER_GRACE_S": "0.2",
    }
    first = processes(**settings)
    second = Processes(tmp_path / "second", kafka, database, prefix, **settings)
    clinic = Clinic.found(connection, debounce_ms=100)
    people = clinic.register(connection, [f"p{n}" for n in range(4 * OF_EACH)])
    running, merged, held, cancelled = (people[n::4] for n in range(4))
    for patient in running + merged:
        engine.treat(Scenario(mode="hang", times=2), patient.contact_id)
    for patient in held + cancelled:
        engine.treat(Scenario(mode="rate", retry_after="3600", times=1), patient.contact_id)
    producer = murmur2_producer(kafka)

    def jobs_of(patients: list[Patient]) -> list[tuple[str, str]]:
        return connection.execute(JOBS_OF, [[one.contact_id for one in patients]]).fetchall()

    def order(action: Action, patients: list[Patient]) -> None:
        for patient in patients:
            for job_id, _ in jobs_of([patient]):
                command = Command(
                    id=str(uuid4()), at_ms=time.time_ns() // 1_000_000, action=action, job_id=job_id,
                    organization_id=clinic.organization_id,
                )  # fmt: skip
                key = f"{clinic.organization_id}:{patient.contact_id}"
                producer.produce(prefix + CONTROL, encode_command(command), key)
        assert producer.flush(10) == 0

    def calls(patients: list[Patient]) -> list[int]:
        return [len(engine.requests(contact_id=one.contact_id)) for one in patients]

    def statuses(patients: list[Patient]) -> Counter[str]:
        return Counter(status for _, status in jobs_of(patients))

    try:
        first.start("relay", "worker", "sink", "delays")
        for patient in people:
            clinic.write(connection, [Message(patient)])
        until(lambda: calls(people) == [1] * len(people))
        until(lambda: statuses(held + cancelled) == {"pending": 2 * OF_EACH})
        order("hold", held)
        order("cancel", cancelled)
        for _ in range(3):  # they wait behind the turn that runs, and become one
            for patient in merged:
                clinic.write(connection, [Message(patient)])
            time.sleep(0.4)
        until(lambda: statuses(cancelled) == {"failed": OF_EACH})
        until(lambda: value(connection, HELD, [one.contact_id for one in held]) == OF_EACH)
        until(lambda: len(jobs_of(merged)) >= 2 * OF_EACH)

        second.start("worker")  # the partitions move: what runs is handed back, and runs again
        until(lambda: min(calls(running + merged)) >= 2, 30)
        first.freeze("worker")  # for longer than its session, with calls under way
        for patient in merged:  # so that the turns which took the others in are answered at once
            engine.treat(Scenario(), patient.contact_id)
        until(lambda: statuses(running) == {"done": OF_EACH}, 60)
        until(lambda: set(statuses(merged)) == {"done"}, 60)

        assert first.kill("worker", signal.SIGCONT) == 70, "it is told that it was replaced, and ends"
        first.spawn("worker")  # and the partitions move once more
        assert statuses(cancelled) == {"failed": OF_EACH} and calls(cancelled) == [1] * OF_EACH
        assert value(connection, HELD, [one.contact_id for one in held]) == OF_EACH
        assert calls(held) == [1] * OF_EACH
        order("release", held)
        first.wait_ready("worker")
        until(lambda: statuses(held) == {"done": OF_EACH}, 30)
    finally:
        second.stop()
    late = "SELECT count(*) FROM rajada.trace WHERE outcome IN ('retry:worker_lost', 'handed_back')"
    assert value(connection, late) >= 1
    effects = engine.effects()
    assert all(count == 1 for count in effects.values()), "no effect twice"
    assert not effects.keys() & {job_id for job_id, _ in jobs_of(cancelled)}
    superseded = {
        str(job_id)
        for (job_id,) in connection.execute(
            "SELECT job_id FROM rajada.trace WHERE outcome LIKE 'merged:%' OR outcome LIKE 'covered_by:%'"
        )
    }
    assert {job_id for job_id, _ in jobs_of(running + merged + held)} - superseded == effects.keys()
    stray = value(
        connection,
        "SELECT count(*) FROM event_log WHERE outcome = 'job' AND job_id::text <> ALL (%s)",
        [*effects, *(job_id for job_id, _ in jobs_of(cancelled))],
    )
    assert stray == 0, "every message's job is one that answered, or that a person has cancelled"
