"""Servers go away and come back: nothing is dead, nothing is lost, everything is decided after."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka.admin import AdminClient
from psycopg.types.json import Jsonb

import status
from db.migrate import migrate
from ops.clinic import Clinic, Connection, Message
from ops.embedded.postgres import EmbeddedPostgres
from settings import Settings
from streams.topics import ensure_topics
from tests.e2e.away import away_s
from tests.e2e.conftest import MakeProcesses
from tests.e2e.processes import Processes
from tests.e2e.waiting import until, value

AWAY_S = away_s(otherwise=12.0)
"""How long Postgres stays away; RAJADA_TEST_AWAY_S=300 gives the five minutes of a real outage."""


@pytest.fixture
def own_postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    """A Postgres that nobody else uses, so that it can be stopped."""
    with EmbeddedPostgres(tmp_path / "postgres", durable=False) as server:
        yield server


def told(folder: Path, name: str) -> str:
    """What a process says that it waits for."""
    said = status.read(folder, name)
    return said.reason if said is not None and said.state == "waiting" else ""


@pytest.mark.long
@pytest.mark.timeout(AWAY_S + 300)
def test_an_outage_of_postgres_kills_no_event(
    own_postgres: EmbeddedPostgres, tmp_path: Path, kafka: str, prefix: str
) -> None:
    url = own_postgres.ensure_database("crm")
    migrate(url, crm="ours")
    running = Processes(tmp_path / "home", kafka, url, prefix, RAJADA_SESSION_TIMEOUT_S="6")
    try:
        running.start()
        with psycopg.connect(url, autocommit=True) as connection:
            clinic = Clinic.found(connection, debounce_ms=1_500)
            patients = clinic.register(connection, [f"p{number}" for number in range(200)])
            for patient in patients:
                clinic.write(connection, [Message(patient)])
            until(lambda: value(connection, "SELECT pg_current_wal_lsn() IS NOT NULL"))
        time.sleep(0.5)  # the events are in their windows, which are open
        own_postgres.stop()
        until(lambda: "Postgres" in told(tmp_path / "home" / "status", "worker"))
        time.sleep(AWAY_S)
        own_postgres.start()
        with psycopg.connect(url, autocommit=True) as connection:
            done = "SELECT count(*) FROM event_log WHERE status = 'done' AND attempts = 1"
            until(lambda: value(connection, done) == len(patients), seconds=90)
            assert value(connection, "SELECT count(*) FROM job_queue") == len(patients)
            # the platform may be told that its database was away; no organization has anything to do
            alarms = "SELECT count(*) FROM agent_inbox_items WHERE organization_id IS NOT NULL"
            assert value(connection, alarms) == 0
    finally:
        running.stop()


def test_one_poison_row_among_500_due_windows_costs_only_itself(
    processes: MakeProcesses, connection: Connection
) -> None:
    running = processes(RAJADA_RETRY_DELAY_MS="300")
    running.start()
    clinic = Clinic.found(connection, debounce_ms=2_500)
    poisoned = Clinic.found(connection, debounce_ms=2_500)
    patients = clinic.register(connection, [f"p{number}" for number in range(500)])
    (victim,) = poisoned.register(connection, ["Poisoned"])
    # reading this one organization fails in the server, whatever is asked about it
    connection.execute("ALTER TABLE organizations RENAME TO organizations_kept")
    connection.execute(
        "CREATE VIEW organizations AS SELECT id, status, settings || CASE WHEN id = "
        f"'{poisoned.organization_id}' THEN jsonb_build_object('x', 1 / (length(status) - length(status)))"
        " ELSE '{}' END AS settings FROM organizations_kept"
    )
    clinic.write(connection, [Message(patient) for patient in patients[:250]])
    (bad,) = poisoned.write(connection, [Message(victim)])
    clinic.write(connection, [Message(patient) for patient in patients[250:]])
    dead = "SELECT status FROM event_log WHERE id = %s"
    until(lambda: value(connection, dead, bad.event_id) == "dead", seconds=60)
    good = "SELECT count(*) FROM event_log WHERE status = 'done' AND outcome = 'job' AND attempts = 1"
    until(lambda: value(connection, good) == 500)
    row = connection.execute(
        "SELECT attempts, last_error, outcome FROM event_log WHERE id = %s", [bad.event_id]
    ).fetchone()
    assert row == (5, "division by zero", "sqlstate_22012")
    alert = connection.execute(
        "SELECT organization_id::text, kind, severity, status, occurrences FROM agent_inbox_items"
    ).fetchall()
    assert alert == [(poisoned.organization_id, "event_dead", "critical", "open", 1)]


@pytest.mark.parametrize(
    "extra", ['"' + "á" * 1_000_000 + '"', "[" * 2_000 + "]" * 2_000], ids=["large", "deep"]
)
def test_a_payload_may_hold_a_megabyte_or_two_thousand_levels_beside_its_ids(
    processes: MakeProcesses, connection: Connection, extra: str
) -> None:
    running = processes()
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    (ana,) = clinic.register(connection, ["Ana"])
    payload = {
        "conversation_id": ana.conversation_id,
        "contact_id": ana.contact_id,
        "channel_session_id": clinic.session_id,
        "inbound_message_id": str(uuid4()),
    }
    event = connection.execute(
        "INSERT INTO event_log (organization_id, event_type, payload)"
        " VALUES (%s, 'ai_agent.dispatch_requested', %s || jsonb_build_object('extra', %s::jsonb))"
        " RETURNING id",
        [clinic.organization_id, Jsonb(payload), extra],
    ).fetchone()
    assert event is not None
    until(lambda: value(connection, "SELECT outcome FROM event_log WHERE id = %s", event[0]) == "job")


@pytest.mark.long
def test_events_of_a_topic_made_anew_are_not_old(
    processes: MakeProcesses, connection: Connection, kafka: str, prefix: str
) -> None:
    running = processes()
    running.start()
    clinic = Clinic.found(connection, debounce_ms=300)
    (ana,) = clinic.register(connection, ["Ana"])
    jobs = "SELECT count(*) FROM job_queue"
    for count in (1, 2, 3):
        clinic.write(connection, [Message(ana)])
        until(lambda wanted=count: value(connection, jobs) == wanted)
    running.kill("relay", signal.SIGTERM)
    admin = AdminClient({"bootstrap.servers": kafka})
    topic = f"{prefix}ai_agent.dispatch_requested"
    admin.delete_topics([topic])[topic].result(10)
    until(lambda: topic not in admin.list_topics(timeout=10).topics)
    ensure_topics(kafka, Settings(topic_prefix=prefix))
    running.start("relay")
    clinic.write(connection, [Message(ana)])

    def answered() -> bool:
        running.ensure_alive()  # the worker may end itself rather than take new offsets for old ones
        return value(connection, jobs) == 4

    until(answered)
