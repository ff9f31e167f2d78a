"""The sink away for ten minutes, Postgres for five, CDC that repeats itself after an idle while, a lost slot.

At full length: `RAJADA_TEST_AWAY_S=600 pytest tests/e2e/test_long_outages.py`; shorter by default
(`tests.e2e.away`). Postgres' outage stands in `test_outages.py`.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

import status
from ops.clinic import Clinic, Connection, Message
from tests.e2e.away import away_s, sweep_shrunk_to
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.topic_reading import murmur2_producer, read_all, records_of
from tests.e2e.waiting import until, value

AWAY_S = away_s(otherwise=30.0)
EVENTS = 5_000
PATIENTS = 500
ROUNDS = 5
"""In each of them every patient writes a burst of two."""
DONE = "SELECT count(*) FROM event_log WHERE status = 'done'"


def counted(running: Processes) -> dict[str, int | str]:
    """The worker's counters."""
    found = status.read_counters(running.status, "worker")
    return {} if found is None else found.values


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.timeout(AWAY_S + 600)
def test_the_sink_away_for_ten_minutes_with_5k_events_doubles_nothing(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    shrunk = sweep_shrunk_to(AWAY_S)
    running = processes(**shrunk)
    running.start()
    clinic = Clinic.found(connection, debounce_ms=1_000)
    patients = clinic.register(connection, [f"p{number}" for number in range(PATIENTS)])
    source = f"{prefix}ai_agent.dispatch_requested"
    running.kill("sink")
    began = time.monotonic()
    for number in range(ROUNDS):
        clinic.write(connection, [Message(patient) for patient in patients for _ in range(2)])
        ahead = began + (number + 1) * 0.8 * AWAY_S / ROUNDS - time.monotonic()
        time.sleep(max(0.0, ahead))
    time.sleep(max(0.0, began + AWAY_S - time.monotonic()))

    waiting = "SELECT count(*) FROM event_log WHERE status = 'pending'"
    aged = f"{waiting} AND created_at < now() - %s * interval '1 ms'"
    overdue = value(connection, aged, int(shrunk["EVENT_REAP_MS"]))
    assert isinstance(overdue, int) and overdue >= EVENTS // 5, "rows that the sweep would take, were it let"
    told = counted(running)
    assert str(told["sweep"]).startswith("held: the sink is more than"), told["sweep"]
    assert int(told["sweeps_held"]) >= 3
    assert "sweep_held" in running.log("worker").read_text()
    assert value(connection, "SELECT count(*) FROM rajada.swept") == 0

    running.start("sink")
    until(lambda: value(connection, DONE) == EVENTS, seconds=120, every=0.2)
    every_s = float(shrunk["RAJADA_SWEEP_EVERY_S"])
    until(lambda: counted(running).get("sweep") == "well", seconds=3 * every_s + 30, every=0.2)
    time.sleep(2 * every_s)  # further rounds, which find nothing
    assert value(connection, "SELECT count(*) FROM rajada.swept") == 0
    assert records_of(kafka, source) == EVENTS, "nothing was published again"
    in_jobs = connection.execute(
        "SELECT count(*), count(DISTINCT e) FROM job_queue, jsonb_array_elements_text(payload->'event_ids') e"
    ).fetchone()
    outcomes = connection.execute("SELECT outcome, count(*) FROM event_log GROUP BY outcome").fetchall()
    assert (in_jobs, outcomes) == ((EVENTS, EVENTS), [("job", EVENTS)])
    jobs = value(connection, "SELECT count(*) FROM job_queue")
    assert records_of(kafka, f"{prefix}dispatch.jobs") == jobs, "every job was sent once"
    assert value(connection, "SELECT count(*) FROM agent_inbox_items") == 0


@pytest.mark.long
def test_br_49_a_slot_dropped_while_100_messages_came_is_told_and_each_has_its_job(
    processes: MakeProcesses, connection: Connection
) -> None:
    running = processes()
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    ana, *patients = clinic.register(connection, [f"p{number}" for number in range(101)])
    clinic.write(connection, [Message(ana)])
    until(lambda: value(connection, DONE) == 1)
    slot = running.environment["RAJADA_SLOT"]
    running.kill("relay")
    until(
        lambda: (
            value(connection, "SELECT active FROM pg_replication_slots WHERE slot_name = %s", slot) is False
        )
    )
    connection.execute("SELECT pg_drop_replication_slot(%s)", [slot])
    missed = clinic.write(connection, [Message(patient) for patient in patients])

    (gone,) = [one for one in running.doctor() if one["check"] == "slot"]
    assert gone["level"] == "fail" and "is gone" in gone["found"] and "start the relay" in gone["advice"]
    running.start("relay")
    assert "slot_lost" in running.log("relay").read_text()
    until(lambda: value(connection, DONE) == 101)
    sources = connection.execute("SELECT source_event_id::text FROM job_queue").fetchall()
    assert {one.event_id for one in missed} < {source for (source,) in sources}
    assert len(sources) == 101
    (made,) = [one for one in running.doctor() if one["check"] == "slot"]
    assert made["level"] == "ok"


@pytest.mark.slow
def test_br_52_the_last_thousand_events_sent_again_after_20_idle_minutes_make_no_job(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str, tmp_path: Path
) -> None:
    """The worker's clock is set forward by the 20 minutes: it has forgotten every contact."""
    ahead = tmp_path / "ahead"
    running = processes(RAJADA_TEST_AHEAD=str(ahead))
    running.commands["worker"] = [sys.executable, "-m", "tests.e2e.stand_ins.worker_ahead"]
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{number}" for number in range(100)])
    for _ in range(10):
        clinic.write(connection, [Message(patient) for patient in patients])
    until(lambda: value(connection, DONE) == 1_000, every=0.2)
    kept = [
        "SELECT id, status, outcome_seq, payload FROM job_queue ORDER BY id",
        "SELECT id, status, outcome, job_id, outcome_seq, attempts FROM event_log ORDER BY id",
    ]
    before = [connection.execute(query).fetchall() for query in kept]
    source, jobs = f"{prefix}ai_agent.dispatch_requested", f"{prefix}dispatch.jobs"
    sent = records_of(kafka, jobs)

    ahead.write_text(str(20 * 60_000))
    changelog = f"{prefix}rajada-dispatch-contacts-changelog"
    until(lambda: forgotten(kafka, changelog) == 100, seconds=90, every=1)
    producer = murmur2_producer(kafka)
    for record in read_all(kafka, source, 1_000):
        producer.produce(source, record.value(), record.key(), headers=record.headers())
    assert producer.flush(10) == 0

    again = "SELECT count(DISTINCT event_id) FROM rajada.trace WHERE outcome = 'deduplicated'"
    until(lambda: value(connection, again) == 1_000, every=0.2)
    assert [connection.execute(query).fetchall() for query in kept] == before
    assert records_of(kafka, jobs) == sent, "0 new jobs"
    until(lambda: int(counted(running)["emptied"]) >= len(patients), every=0.2)
    assert counted(running)["jobs"] == sent


def forgotten(kafka: str, changelog: str) -> int:
    """Contacts whose newest record in the changelog is a tombstone."""
    newest = {one.key(): one.value() for one in read_all(kafka, changelog, records_of(kafka, changelog))}
    return sum(value is None for value in newest.values())
