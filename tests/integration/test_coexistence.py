"""Seeing another consumer in the tables of a real Postgres, and waiting for it to go."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import status
from settings import Settings
from streams.coexistence import Gate, NotPrepared, Sign, look, wait_until_alone
from tests.e2e.waiting import until

AI = "ai_agent.dispatch_requested"
Connection = psycopg.Connection[tuple[object, ...]]


@pytest.fixture
def crm(database: str) -> Iterator[Connection]:
    """The CRM's connection, with an organization."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("INSERT INTO organizations (id) VALUES (%s)", [ORGANIZATION])
        yield connection


ORGANIZATION = str(uuid4())


def event(crm: Connection, state: str, by: list[str], age_s: float = 1, event_type: str = AI) -> None:
    crm.execute(
        "INSERT INTO event_log (organization_id, event_type, status, consumed_by, created_at, updated_at)"
        " VALUES (%s, %s, %s, %s, now() - interval '1 day', now() - %s * interval '1 second')",
        [ORGANIZATION, event_type, state, by, age_s],
    )


def job(
    crm: Connection,
    state: str,
    by: str | None,
    age_s: float = 1,
    kind: str = "inbound_turn",
    *,
    ours: bool = False,
) -> None:
    crm.execute(
        "INSERT INTO job_queue (organization_id, kind, source_event_id, status, locked_by, locked_at,"
        " created_at, outcome_seq) VALUES (%s, %s, gen_random_uuid(), %s, %s,"
        " CASE WHEN %s::text IS NOT NULL THEN now() - %s * interval '1 second' END,"
        " now() - %s * interval '1 second', %s)",
        [ORGANIZATION, kind, state, by, by, age_s, age_s, 2 if ours else None],
    )


def seen(crm: Connection) -> set[tuple[str, str | None, bool, int]]:
    return {(s.what, s.who, s.fresh, s.count) for s in look(crm, Settings())}


def test_nothing_of_ours_and_nothing_of_no_concern_is_a_sign(crm: Connection) -> None:
    event(crm, "pending", [])
    event(crm, "done", ["agent-engine"])
    event(crm, "dead", ["other"])
    event(crm, "processing", ["sibling"], event_type="message.created")
    job(crm, "running", "agent-engine", ours=True)
    job(crm, "pending", None, ours=True)
    job(crm, "running", "crm-1", kind="watchdog")
    job(crm, "done", "crm-1")
    assert look(crm, Settings()) == []


def test_signs_are_counted_by_name_with_the_newest_age(crm: Connection) -> None:
    for age_s in (3, 20, 299):
        event(crm, "processing", ["agent-engine"], age_s)
    event(crm, "processing", ["agent-engine"], 301)
    event(crm, "processing", ["agent-engine", "other"], 5, "group_link.dispatch_requested")
    event(crm, "processing", [], 5)
    job(crm, "running", "crm-1")
    job(crm, "running", "crm-2", 599)
    job(crm, "running", "crm-2", 601)
    job(crm, "running", None)
    job(crm, "pending", None, 598)
    job(crm, "pending", None, 602)
    assert seen(crm) == {
        ("event", "agent-engine", True, 3),
        ("event", "agent-engine", False, 1),
        ("event", "other", True, 1),
        ("event", None, True, 1),
        ("job", "crm-1", True, 1),
        ("job", "crm-2", True, 1),
        ("job", "crm-2", False, 1),
        ("job", None, True, 1),
        ("made", None, True, 1),
        ("made", None, False, 1),
    }
    by_table = look(crm, Settings(jobs_run_by="table"))
    assert {s.fresh for s in by_table if s.what == "made"} == {False}, "those are the CRM's workers' alone"
    (ours,) = (s for s in look(crm, Settings()) if s.who == "agent-engine" and s.fresh)
    assert 3 <= ours.newest_age_s < 10


def test_odd_times_are_no_error(crm: Connection) -> None:
    event(crm, "processing", ["a"])
    event(crm, "processing", ["b"])
    job(crm, "running", "c")
    crm.execute("UPDATE event_log SET updated_at = 'infinity' WHERE 'a' = ANY (consumed_by)")
    crm.execute(
        "UPDATE event_log SET updated_at = '-infinity', created_at = '-infinity'"
        " WHERE 'b' = ANY (consumed_by)"
    )
    crm.execute("UPDATE job_queue SET locked_at = NULL, created_at = now() + interval '1 day'")
    ages = {s.who: (s.fresh, s.newest_age_s) for s in look(crm, Settings())}
    assert ages == {"a": (True, 0), "b": (False, 1e9), "c": (True, 0)}


def test_columns_that_are_enums_are_read_as_well(crm: Connection) -> None:
    crm.execute(f"CREATE TYPE kind_of_event AS ENUM ('{AI}', 'message.created')")
    crm.execute("CREATE TYPE state_of_event AS ENUM ('pending', 'processing', 'done', 'dead')")
    crm.execute(
        "DROP INDEX event_log_due, rajada_event_log_open, rajada_event_log_dead, rajada_event_log_processing"
    )
    crm.execute("ALTER TABLE event_log DROP CONSTRAINT event_log_status_check, ALTER status DROP DEFAULT")
    crm.execute(
        "ALTER TABLE event_log ALTER status TYPE state_of_event USING status::state_of_event,"
        " ALTER event_type TYPE kind_of_event USING event_type::kind_of_event"
    )
    event(crm, "processing", ["drain"])
    event(crm, "processing", ["sibling"], event_type="message.created")
    assert seen(crm) == {("event", "drain", True, 1)}


def test_a_database_that_was_never_migrated_is_told_so(empty_database: str) -> None:
    with pytest.raises(NotPrepared, match="rajada migrate"):
        wait_until_alone(empty_database, Settings())


# -- waiting


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv(status.STATUS_DIR, str(tmp_path))
    return tmp_path


def waiting(database: str, settings: Settings) -> threading.Thread:
    thread = threading.Thread(target=wait_until_alone, args=(database, settings), daemon=True)
    thread.start()
    return thread


def reason(said: Path) -> str:
    report = status.read(said, "worker")
    return report.reason if report is not None and report.state == "waiting" else ""


def test_alone_it_starts_at_once(crm: Connection, database: str) -> None:
    began = time.monotonic()
    wait_until_alone(database, Settings())
    assert time.monotonic() - began < 2


def test_it_waits_as_long_as_another_has_events_and_begins_when_they_are_reaped(
    crm: Connection, database: str, said: Path
) -> None:
    event(crm, "processing", ["old-drain"])
    thread = waiting(database, Settings())
    until(lambda: "1 event `processing` by old-drain" in reason(said))
    assert "docs/cut-over.md" in reason(said)
    time.sleep(1.5)
    assert thread.is_alive()
    crm.execute("UPDATE event_log SET status = 'pending'")
    thread.join(5)
    assert not thread.is_alive()


def test_it_begins_by_itself_when_a_dead_drains_events_are_old_enough_to_be_swept(
    crm: Connection, database: str, said: Path
) -> None:
    event(crm, "processing", ["agent-engine"], 0)
    thread = waiting(database, Settings(event_reap_ms=3_000))
    until(lambda: reason(said))
    thread.join(8)
    assert not thread.is_alive()


def test_jobs_of_the_crms_workers_hold_lanes_and_not_the_table(
    crm: Connection, database: str, said: Path
) -> None:
    job(crm, "running", "crm-1")
    wait_until_alone(database, Settings(jobs_run_by="table"))
    thread = waiting(database, Settings())
    until(lambda: "1 job `running` by crm-1" in reason(said))
    crm.execute("UPDATE job_queue SET status = 'done'")
    thread.join(5)
    assert not thread.is_alive()


def test_an_unreachable_database_is_waited_for(said: Path) -> None:
    gate = Gate("postgresql://nobody@127.0.0.1:9/none?connect_timeout=2", Settings())
    assert not gate.open()
    assert "Postgres can't be asked" in reason(said)


def test_a_sign_is_plain_data(crm: Connection) -> None:
    event(crm, "processing", ["x"], 2)
    (sign,) = look(crm, Settings())
    assert isinstance(sign, Sign) and isinstance(sign.newest_age_s, float)
