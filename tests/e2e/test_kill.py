"""kill -9 of worker, relay and sink in the middle of 20,000 events: nothing lost, no effect doubled."""

from __future__ import annotations

import random
import signal
import threading
import time

import psycopg

from ops.clinic import Clinic, Connection, Message, Patient
from tests.e2e.conftest import MakeProcesses
from tests.e2e.waiting import until, value

EVENTS = 20_000
CONTACTS = 500
PER_STATEMENT = 20
RATE = 1_500
KILLS = ["worker", "relay", "sink", "worker", "sink", "relay", "worker"]


def feed(database: str, clinic: Clinic, patients: list[Patient], stop: threading.Event) -> None:
    """Write the events at RATE, in small transactions of one patient each."""
    order = random.Random(7)
    began = time.monotonic()
    with psycopg.connect(database, autocommit=True) as connection:
        for number in range(EVENTS // PER_STATEMENT):
            if stop.is_set():
                return
            patient = patients[order.randrange(CONTACTS)]
            clinic.write(connection, [Message(patient)] * PER_STATEMENT)
            ahead = began + number * PER_STATEMENT / RATE - time.monotonic()
            if ahead > 0:
                time.sleep(ahead)


def test_kill_9_of_every_process_loses_nothing_and_doubles_no_effect(
    processes: MakeProcesses, connection: Connection, database: str
) -> None:
    running = processes()
    running.start()
    clinic = Clinic.found(connection, debounce_ms=500)
    patients = clinic.register(connection, [f"p{number}" for number in range(CONTACTS)])
    stop = threading.Event()
    feeder = threading.Thread(target=feed, args=(database, clinic, patients, stop))
    feeder.start()
    try:
        for name in KILLS:
            time.sleep(1.5)
            running.kill(name, signal.SIGKILL)
            running.spawn(name)
        feeder.join()
    finally:
        stop.set()
        feeder.join()

    def settled() -> bool:
        running.ensure_alive()
        done = "SELECT count(*) FROM event_log WHERE status = 'done'"
        return value(connection, done) == EVENTS

    until(settled, seconds=90, every=0.5)
    time.sleep(2)  # a second effect would come late
    assert value(connection, "SELECT count(*) FROM event_log") == EVENTS
    told = dict(connection.execute("SELECT outcome, count(*) FROM event_log GROUP BY outcome").fetchall())
    # windows that closed late, after their owner was killed, may find a newer message: its job answers
    assert set(told) <= {"job", "superseded_by_newer_inbound"}
    in_jobs = connection.execute(
        "SELECT count(*), count(DISTINCT e) FROM job_queue, jsonb_array_elements_text(payload->'event_ids') e"
    ).fetchone()
    assert in_jobs == (told["job"], told["job"]), "an event with a job is in that one and no other"
    strays = """
        SELECT count(*) FROM event_log e LEFT JOIN job_queue j ON j.id = e.job_id
        WHERE e.outcome = 'job' AND (j.id IS NULL OR NOT (j.payload->'event_ids') ? e.id::text)
    """
    assert value(connection, strays) == 0, "the event's row and its job tell the same"
    unanswered = """
        SELECT count(*) FROM (
            SELECT DISTINCT ON (m.conversation_id) m.id
            FROM messages m ORDER BY m.conversation_id, m.sent_at DESC, m.created_at DESC, m.id DESC
        ) newest JOIN event_log e ON e.entity_id = newest.id WHERE e.outcome <> 'job'
    """
    assert value(connection, unanswered) == 0, "every conversation's newest message has a job"
