"""Another number of partitions, while the CRM goes on writing (docs/topics.md)."""

from __future__ import annotations

import signal
import threading
import time

import psycopg
import pytest

from ops.clinic import Clinic, Connection, Message, Patient
from settings import Settings
from streams.topics import partition_count
from tests.e2e.conftest import MakeProcesses
from tests.e2e.waiting import until, value

EVENTS = 600
UNSETTLED = "SELECT count(*) FROM event_log WHERE status <> 'done'"


def feed(database: str, clinic: Clinic, patients: list[Patient]) -> None:
    """Writes on, whatever happens to Rajada."""
    with psycopg.connect(database, autocommit=True) as connection:
        for number in range(EVENTS):
            clinic.write(connection, [Message(patients[number % len(patients)])])
            time.sleep(0.02)


@pytest.mark.long
def test_partitions_are_changed_while_events_keep_coming(
    processes: MakeProcesses, connection: Connection, database: str, kafka: str, prefix: str
) -> None:
    before = processes(RAJADA_PARTITIONS="2")
    before.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    patients = clinic.register(connection, [f"p{number}" for number in range(40)])
    feeder = threading.Thread(target=feed, args=(database, clinic, patients))
    feeder.start()
    until(lambda: value(connection, "SELECT count(*) FROM job_queue") != 0)

    assert before.kill("relay", signal.SIGTERM) == 0
    published = "SELECT count(*) FROM rajada.trace WHERE stage = 'decide'"
    seen = -1
    while seen != (seen := value(connection, published)):  # step 2: nothing moves any more
        time.sleep(2)
    for name in ("worker", "sink"):
        assert before.kill(name, signal.SIGTERM) == 0

    after = processes(RAJADA_PARTITIONS="5", RAJADA_TOPIC_PREFIX=f"{prefix}again.")
    after.start()
    feeder.join()
    until(lambda: value(connection, UNSETTLED) == 0)
    assert partition_count(kafka, Settings(topic_prefix=f"{prefix}again.")) == 5
    assert value(connection, "SELECT count(*) FROM event_log") == EVENTS
    twice = """
        SELECT count(*) FROM (
            SELECT e FROM job_queue, jsonb_array_elements_text(payload->'event_ids') e
            GROUP BY e HAVING count(*) > 1
        ) again
    """
    assert value(connection, twice) == 0
