"""The relay under kill -9, cut connections and lost slots: nothing is lost, the order per contact holds."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from uuid import uuid4

import psycopg
import pytest

from db.relay import NotMigrated, run_relay
from db.replication import ReplicationRefused, drop, ensure_publication, ensure_slot, slot_status
from settings import Settings
from tests.integration.db.conftest import (
    RunningRelay,
    Topics,
    headers_of,
    numbers_by_key,
    row_of,
    wait_until_read,
)
from tests.integration.db.crm import AI, insert_event, insert_many

CONTACTS = 20


@contextmanager
def load(url: str, per_step: int, step_s: float) -> Iterator[list[int]]:
    """Inserts numbered events all the time; the list ends up holding how many there were."""
    stop, written = threading.Event(), [0]
    organization, contacts = uuid4(), [uuid4() for _ in range(CONTACTS)]

    def body() -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            while not stop.wait(step_s):
                insert_many(connection, organization, contacts, written[0], per_step)
                written[0] += per_step

    thread = threading.Thread(target=body)
    thread.start()
    try:
        yield written
    finally:
        stop.set()
        thread.join()


def first_occurrences(numbers: list[int]) -> list[int]:
    return list(dict.fromkeys(numbers))


def assert_all_there_in_order(topics: Topics, written: int) -> None:
    seen: dict[bytes, list[int]] = {}
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        seen = numbers_by_key(topics.read(AI, written))
        if len(set().union(*seen.values())) == written:
            break
    assert set().union(*seen.values()) == set(range(written))
    assert len(seen) == CONTACTS
    for numbers in seen.values():
        assert first_occurrences(numbers) == sorted(set(numbers))


@pytest.mark.long
def test_kill_9_under_load_loses_nothing_and_keeps_the_order(
    database: str, kafka: str, topics: Topics, settings: Settings, prefix: str
) -> None:
    command = [
        sys.executable,
        "-m",
        "tests.integration.db.relay_process",
        database,
        kafka,
        prefix,
        settings.slot,
    ]
    process = subprocess.Popen(command)
    try:
        wait_until_read(database, settings.slot)
        with load(database, per_step=100, step_s=0.05) as written:
            for run in range(4):
                time.sleep(0.7 + 0.2 * run)
                process.kill()
                process.wait()
                process = subprocess.Popen(command)
                wait_until_read(database, settings.slot)
            time.sleep(0.5)
        assert written[0] > 1000
        assert_all_there_in_order(topics, written[0])
    finally:
        process.kill()
        process.wait()


def test_a_cut_replication_connection_is_made_again(
    database: str, relay: RunningRelay, topics: Topics, settings: Settings
) -> None:
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        with load(database, per_step=50, step_s=0.05) as written:
            for _ in range(3):
                time.sleep(0.5)
                connection.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE datname = current_database() AND application_name LIKE 'rajada-relay%'"
                )
                wait_until_read(database, settings.slot)
        assert_all_there_in_order(topics, written[0])


def test_rows_that_nobody_read_in_time_come_when_the_relay_does(
    database: str, relay: RunningRelay, topics: Topics
) -> None:
    with relay():
        pass
    with psycopg.connect(database, autocommit=True) as connection:
        missed = [insert_event(connection) for _ in range(3)]
        time.sleep(0.1)
    with relay():
        messages = topics.read(AI, 3)
    assert sorted(str(row_of(m)["id"]) for m in messages) == sorted(missed)
    assert {headers_of(m)["cdc_op"] for m in messages} == {b"c"}


def test_a_stopped_relay_has_confirmed_what_it_published(
    database: str, relay: RunningRelay, topics: Topics
) -> None:
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        insert_event(connection)
        topics.read(AI, 1)
    with relay():
        time.sleep(1)
    assert len(topics.read(AI, 1)) == 1


def test_rows_from_before_the_first_slot_come_with_their_created_at(
    database: str, relay: RunningRelay, topics: Topics
) -> None:
    organization, contacts = uuid4(), [uuid4() for _ in range(CONTACTS)]
    with psycopg.connect(database, autocommit=True) as connection:
        for first in range(0, 2500, CONTACTS):  # several pages, a transaction for each round of contacts
            insert_many(connection, organization, contacts, first, CONTACTS)
        insert_event(connection, status="done")
        insert_event(connection, event_type="message.received")
        seen = insert_event(connection)
        connection.execute("UPDATE event_log SET outcome_seq = 1 WHERE id = %s", (seen,))
        old = insert_event(connection)
        connection.execute(
            "UPDATE event_log SET created_at = (SELECT installed_at FROM rajada.meta) - interval '1 s' "
            "WHERE id = %s",
            (old,),
        )
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        insert_many(connection, organization, contacts, 2500, 20)
        messages = topics.read(AI, 2520)
        row = connection.execute("SELECT backfill_since FROM rajada.relay").fetchone()
        assert row == (None,)
    numbers = numbers_by_key(messages)
    assert len(messages) == 2520
    assert set().union(*numbers.values()) == set(range(2520))
    assert all(found == sorted(found) for found in numbers.values())
    read = [m for m in messages if headers_of(m)["cdc_op"] == b"r"]
    assert len(read) == 2500
    for message in read:
        created_ms = datetime.fromisoformat(str(row_of(message)["created_at"])).timestamp() * 1000
        assert 0 <= created_ms - int(headers_of(message)["cdc_source_ts_ms"]) < 1.001


def test_a_dropped_slot_is_made_anew_and_the_table_is_read(
    database: str, relay: RunningRelay, topics: Topics, settings: Settings
) -> None:
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        published = insert_event(connection)
        topics.read(AI, 1)
    with psycopg.connect(database, autocommit=True) as connection:
        state = connection.execute("SELECT confirmed_commit_at, slots_made FROM rajada.relay").fetchone()
        assert state is not None and state[0] is not None and state[1] == 1
        assert drop(connection, slot=settings.slot) == [f"replication slot {settings.slot}"]
        missed = insert_event(connection)
    with relay():
        ids = [str(row_of(m)["id"]) for m in topics.read(AI, 2)]
    # What was published shortly before may come again, as a duplicate that its id tells.
    assert set(ids) == {published, missed}


def test_a_slot_dropped_under_a_running_relay_is_made_anew(
    database: str, relay: RunningRelay, topics: Topics, settings: Settings
) -> None:
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        first = insert_event(connection)
        topics.read(AI, 1)
        drop(connection, slot=settings.slot)
        second = insert_event(connection)
        wait_until_read(database, settings.slot)
        third = insert_event(connection)
        deadline = time.monotonic() + 30
        ids: set[str] = set()
        while ids != {first, second, third} and time.monotonic() < deadline:
            ids = {str(row_of(m)["id"]) for m in topics.read(AI, 3)}
        assert ids == {first, second, third}


def test_a_publication_dropped_under_a_running_relay_costs_no_row(
    database: str, relay: RunningRelay, topics: Topics, settings: Settings
) -> None:
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        wanted = {insert_event(connection)}
        topics.read(AI, 1)
        drop(connection, publication=settings.publication)
        wanted |= {insert_event(connection) for _ in range(3)}
        deadline = time.monotonic() + 60
        ids: set[str] = set()
        while not ids >= wanted and time.monotonic() < deadline:
            ids = {str(row_of(m)["id"]) for m in topics.read(AI, len(wanted), 5)}
        assert ids == wanted


def test_an_interrupted_back_fill_starts_over(
    database: str, relay: RunningRelay, topics: Topics, settings: Settings
) -> None:
    with relay():
        pass
    with psycopg.connect(database, autocommit=True) as connection:
        event = insert_event(connection)
        # As a crash after the new slot was made and before the table was read leaves it.
        drop(connection, slot=settings.slot)
        ensure_slot(connection, settings.slot)
        connection.execute("UPDATE rajada.relay SET backfill_since = now() - interval '1 hour'")
    with relay():
        (message,) = topics.read(AI, 1)
    assert row_of(message)["id"] == event
    assert headers_of(message)["cdc_op"] == b"r"


def test_two_relays_of_one_slot_take_turns(database: str, relay: RunningRelay, topics: Topics) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        with relay():
            second = relay()
            with second:
                one = insert_event(connection)
                assert [row_of(m)["id"] for m in topics.read(AI, 1)] == [one]
        with relay():
            two = insert_event(connection)
            assert {row_of(m)["id"] for m in topics.read(AI, 2)} == {one, two}


def test_a_database_without_our_schema_is_refused_with_the_way_out(
    empty_database: str, kafka: str, topics: Topics, settings: Settings
) -> None:
    with psycopg.connect(empty_database, autocommit=True) as connection:
        connection.execute("CREATE TABLE event_log (id uuid, event_type text, status text)")
    with pytest.raises(NotMigrated, match="rajada migrate"):
        run_relay(empty_database, kafka, settings, threading.Event())


def test_names_that_serve_something_else_are_refused(
    database: str, postgres: str, settings: Settings
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(f"CREATE PUBLICATION {settings.publication} FOR TABLE contacts")
        with pytest.raises(ReplicationRefused, match="RAJADA_PUBLICATION"):
            ensure_publication(connection, settings.publication)
        drop(connection, publication=settings.publication)
        connection.execute(f"CREATE PUBLICATION {settings.publication} FOR ALL TABLES")
        with pytest.raises(ReplicationRefused, match="RAJADA_PUBLICATION"):
            ensure_publication(connection, settings.publication)
        ensure_slot(connection, settings.slot)
    with (
        psycopg.connect(postgres, autocommit=True) as elsewhere,
        pytest.raises(ReplicationRefused, match="RAJADA_SLOT"),
    ):
        ensure_slot(elsewhere, settings.slot)


def test_publication_and_slot_are_made_once_brought_up_to_date_and_dropped(
    database: str, settings: Settings
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        assert ensure_publication(connection, settings.publication, [AI])
        assert not ensure_publication(connection, settings.publication, [AI])
        assert ensure_publication(connection, settings.publication)
        assert not ensure_publication(connection, settings.publication)
        row = connection.execute("SELECT rowfilter FROM pg_publication_tables").fetchone()
        assert row is not None and "group_link.dispatch_requested" in str(row[0]) and "pending" in str(row[0])
        assert slot_status(connection, settings.slot) is None
        assert ensure_slot(connection, settings.slot)
        assert not ensure_slot(connection, settings.slot)
        found = slot_status(connection, settings.slot)
        assert found is not None and not found.active and not found.lost and found.lag_bytes >= 0
        assert len(drop(connection, publication=settings.publication, slot=settings.slot)) == 2
        assert drop(connection, publication=settings.publication, slot=settings.slot) == []
