"""The relay end to end: what is inserted and committed arrives, in its shape and order, and nothing else."""

from __future__ import annotations

import json
import threading
import time
from datetime import datetime
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from db.migrate import migrate
from db.relay import run_relay
from db.replication import drop, slot_status
from schemas.codec import decode_outcome
from schemas.topic_names import DEAD, OUTCOMES
from settings import Settings
from tests.integration.db.conftest import (
    DEAD_MAX_BYTES,
    PARTITIONS,
    SOURCE_MAX_BYTES,
    RunningRelay,
    Topics,
    headers_of,
    numbers_by_key,
    row_of,
    wait_until_read,
)
from tests.integration.db.crm import AI, GROUP_LINK, insert_event, insert_many
from tests.integration.db.murmur2 import partition_of


def test_a_row_arrives_with_its_key_headers_commit_time_and_partition(
    database: str, relay: RunningRelay, topics: Topics
) -> None:
    organization, contact = uuid4(), uuid4()
    with relay(), psycopg.connect(database) as connection:
        event = insert_event(connection, organization=organization, contact=str(contact).upper())
        time.sleep(0.3)  # the commit is later than the row's created_at
        before_ms = time.time() * 1000
        connection.commit()
        after_ms = time.time() * 1000
        (message,) = topics.read(AI, 1)
        row = connection.execute("SELECT payload::text, created_at FROM event_log").fetchone()
    key = f"{organization}:{contact}"
    assert message.key() == key.encode()
    assert message.partition() == partition_of(key.encode(), PARTITIONS)
    headers = headers_of(message)
    assert list(headers) == ["cdc_op", "cdc_source_lsn", "cdc_source_ts_ms", "event_id", "event_type"]
    assert headers["cdc_op"] == b"c"
    assert headers["event_id"] == event.encode()
    assert headers["event_type"] == AI.encode()
    assert int(headers["cdc_source_lsn"]) > 0
    assert before_ms - 50 <= int(headers["cdc_source_ts_ms"]) <= after_ms + 50
    value = row_of(message)
    assert row is not None
    assert value["id"] == event
    assert value["payload"] == row[0]
    assert value["consumed_by"] == []
    assert value["partition_key"] == key
    assert datetime.fromisoformat(str(value["created_at"])) == row[1]


def test_each_type_goes_to_its_own_topic_and_nothing_else_is_published(
    database: str, relay: RunningRelay, topics: Topics
) -> None:
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        insert_event(connection, event_type="message.received")
        insert_event(connection, status="done")
        insert_event(connection, status="processing")
        ours = insert_event(connection)
        link = insert_event(connection, event_type=GROUP_LINK, payload={"phone": "+5511988887777"})
        connection.execute("UPDATE event_log SET attempts = attempts + 1")
        connection.execute("UPDATE event_log SET status = 'pending'")
        connection.execute("DELETE FROM event_log WHERE status = 'done'")
        connection.execute("INSERT INTO organizations (name) VALUES ('another table')")
        last = insert_event(connection)
        assert {row_of(m)["id"] for m in topics.read(AI, 2)} == {ours, last}
        assert [row_of(m)["id"] for m in topics.read(GROUP_LINK, 1)] == [link]


def test_a_rolled_back_transaction_is_not_published(
    database: str, relay: RunningRelay, topics: Topics
) -> None:
    with relay(), psycopg.connect(database) as connection:
        insert_event(connection)
        connection.rollback()
        kept = insert_event(connection)
        connection.execute("SAVEPOINT s")
        insert_event(connection)
        connection.execute("ROLLBACK TO SAVEPOINT s")
        connection.commit()
        assert [row_of(m)["id"] for m in topics.read(AI, 1)] == [kept]


def test_rows_of_a_contact_keep_their_order(database: str, relay: RunningRelay, topics: Topics) -> None:
    organization, contacts = uuid4(), [uuid4() for _ in range(7)]
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        for first in range(0, 1400, 70):
            insert_many(connection, organization, contacts, first, 70)
        messages = topics.read(AI, 1400)
    assert len(messages) == 1400
    seen = numbers_by_key(messages)
    assert len(seen) == 7
    assert all(numbers == sorted(numbers) for numbers in seen.values())


def test_an_idle_slot_does_not_hold_the_wal_of_other_tables(
    database: str, relay: RunningRelay, settings: Settings
) -> None:
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        before = slot_status(connection, settings.slot)
        connection.execute("INSERT INTO organizations (name) SELECT 'x' FROM generate_series(1, 20000)")
        written = connection.execute("SELECT (pg_current_wal_lsn() - '0/0')::bigint").fetchone()
        assert before is not None and before.confirmed_flush_lsn is not None and written is not None
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            now = slot_status(connection, settings.slot)
            assert now is not None and now.confirmed_flush_lsn is not None
            if now.confirmed_flush_lsn >= int(str(written[0])):
                return
            time.sleep(0.1)
        raise AssertionError(f"confirmed_flush_lsn stays at {now.confirmed_flush_lsn}, written {written[0]}")


def test_a_row_above_the_topics_limit_is_a_dead_letter_and_stops_nobody(
    database: str, relay: RunningRelay, topics: Topics, settings: Settings
) -> None:
    contact = uuid4()
    large = {"contact_id": str(contact), "text": "x" * SOURCE_MAX_BYTES}
    huge = {"contact_id": str(contact), "text": "x" * DEAD_MAX_BYTES}
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        dead = insert_event(connection, payload=large)
        truncated = insert_event(connection, payload=huge)
        alive = insert_event(connection, contact=contact)
        assert [row_of(m)["id"] for m in topics.read(AI, 1)] == [alive]
        letters = {str(row_of(m)["id"]): m for m in topics.read(DEAD, 2)}
        organizations = connection.execute("SELECT id::text, organization_id::text FROM event_log").fetchall()
    assert set(letters) == {dead, truncated}
    whole, cut = letters[dead], letters[truncated]
    assert json.loads(str(row_of(whole)["payload"])) == large
    assert whole.key() == f"{dict(organizations)[dead]}:{contact}".encode()
    headers = headers_of(whole)
    assert headers["reason"] == b"record_too_large"
    assert headers["stage"] == b"publish"
    assert headers["event_id"] == headers["event-id"] == dead.encode()
    assert headers["kafka_dlt-original-topic"] == settings.topic(AI).encode()
    assert "truncated" not in headers
    # Nobody further down ever sees it: the relay itself tells the sink that it is dead.
    told = {
        o.events[0].event_id: o for o in (decode_outcome(m.value() or b"") for m in topics.read(OUTCOMES, 2))
    }
    assert set(told) == {dead, truncated}
    assert told[dead].organization_id == dict(organizations)[dead]
    assert (told[dead].status, told[dead].outcome) == ("dead", "record_too_large")
    assert told[dead].alert is not None
    # Above even the dead letters' limit: the row in Postgres has the content, the letter says where.
    assert headers_of(cut)["truncated"] == b"1"
    assert "payload" not in row_of(cut)


def test_the_topics_limit_may_be_lowered_under_a_running_relay(
    database: str, relay: RunningRelay, topics: Topics, settings: Settings
) -> None:
    from confluent_kafka.admin import (
        AdminClient,
        AlterConfigOpType,
        ConfigEntry,
        ConfigResource,
        ResourceType,
    )

    admin = AdminClient({"bootstrap.servers": topics.bootstrap})
    lowered = ConfigResource(
        ResourceType.TOPIC,
        settings.topic(AI),
        incremental_configs=[
            ConfigEntry("max.message.bytes", "20000", incremental_operation=AlterConfigOpType.SET)
        ],
    )
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        first = insert_event(connection)
        topics.read(AI, 1)
        for future in admin.incremental_alter_configs([lowered]).values():
            future.result(30)
        time.sleep(0.5)
        dead = insert_event(connection, payload={"contact_id": str(uuid4()), "text": "x" * 50_000})
        last = insert_event(connection)
        assert {row_of(m)["id"] for m in topics.read(AI, 2)} == {first, last}
        (letter,) = topics.read(DEAD, 1)
    assert row_of(letter)["id"] == dead
    assert headers_of(letter)["reason"] == b"record_too_large"


@pytest.mark.parametrize("column", ["event_type", "status"])
def test_an_enum_column_is_not_in_the_filter_and_the_relay_filters_itself(
    database: str, relay: RunningRelay, topics: Topics, settings: Settings, column: str
) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(
            f"CREATE TYPE own AS ENUM ('{AI}', '{GROUP_LINK}', 'message.received', 'pending', 'processing', "
            "'done', 'dead')"
        )
        connection.execute(
            "DROP INDEX event_log_due, rajada_event_log_open, rajada_event_log_dead,"
            " rajada_event_log_processing"
        )
        connection.execute("ALTER TABLE event_log DROP CONSTRAINT event_log_status_check")
        connection.execute(f"ALTER TABLE event_log ALTER {column} DROP DEFAULT")
        connection.execute(f"ALTER TABLE event_log ALTER {column} TYPE own USING {column}::own")
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        row = connection.execute(
            "SELECT rowfilter FROM pg_publication_tables WHERE pubname = %s", (settings.publication,)
        ).fetchone()
        assert row is not None and column not in str(row[0])
        insert_event(connection, event_type="message.received")
        insert_event(connection, status="done")
        ours = insert_event(connection)
        assert [row_of(m)["id"] for m in topics.read(AI, 1)] == [ours]


def test_a_partitioned_log_is_published_as_one(database: str, relay: RunningRelay, topics: Topics) -> None:
    with psycopg.connect(database) as connection:
        connection.execute("ALTER TABLE event_log RENAME TO event_log_old")
        connection.execute(
            "CREATE TABLE event_log (LIKE event_log_old INCLUDING DEFAULTS) PARTITION BY RANGE (created_at)"
        )
        connection.execute("CREATE TABLE event_log_all PARTITION OF event_log DEFAULT")
        connection.execute(
            "CREATE TRIGGER zz_rajada_partition_key BEFORE INSERT ON event_log "
            "FOR EACH ROW EXECUTE FUNCTION rajada.fill_partition_key()"
        )
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        contact = uuid4()
        ours = insert_event(connection, contact=contact)
        (message,) = topics.read(AI, 1)
        assert row_of(message)["id"] == ours
        assert str(message.key()).rstrip("'").endswith(str(contact))


def test_a_column_added_under_a_running_relay_is_in_the_next_record(
    database: str, relay: RunningRelay, topics: Topics
) -> None:
    with relay(), psycopg.connect(database, autocommit=True) as connection:
        insert_event(connection)
        connection.execute("ALTER TABLE event_log ADD COLUMN extra integer DEFAULT 7")
        insert_event(connection)
        rows = sorted((row_of(m) for m in topics.read(AI, 2)), key=lambda row: str(row["created_at"]))
        assert "extra" not in rows[0]
        assert rows[1]["extra"] == 7


def test_an_ordinary_role_that_owns_the_tables_is_enough(
    empty_database: str, kafka: str, topics: Topics, settings: Settings
) -> None:
    role = f"r{uuid4().hex[:10]}"
    url = make_conninfo(empty_database, user=role, password=role)
    with psycopg.connect(empty_database, autocommit=True) as admin:
        name = admin.info.dbname
        admin.execute(f"CREATE ROLE {role} LOGIN REPLICATION PASSWORD '{role}'")
        admin.execute(f'GRANT CREATE ON DATABASE "{name}" TO {role}')
        admin.execute(f"GRANT CREATE ON SCHEMA public TO {role}")
        try:
            migrate(url, crm="ours")
            stop = threading.Event()
            thread = threading.Thread(target=run_relay, args=(url, kafka, settings, stop))
            thread.start()
            try:
                wait_until_read(empty_database, settings.slot)
                event = insert_event(admin)
                assert [row_of(m)["id"] for m in topics.read(AI, 1)] == [event]
            finally:
                stop.set()
                thread.join(30)
            drop(admin, slot=settings.slot)
        finally:
            admin.execute(f"DROP OWNED BY {role} CASCADE")
            admin.execute(f"DROP ROLE {role}")
