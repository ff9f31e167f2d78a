"""Debezium on a real Kafka Connect: the records are the relay's, and nothing is lost whatever breaks."""

from __future__ import annotations

import json
import re
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from confluent_kafka import Message
from psycopg.conninfo import make_conninfo

from db import roles
from db.migrate import migrate
from db.relay import run_relay
from ops.cdc.rest import Connect, ConnectAway
from ops.doctor.connectors import connector_verdicts, debezium_publishes
from ops.embedded.connect import EmbeddedConnect
from ops.embedded.postgres import EmbeddedPostgres
from schemas.alert_texts import title
from settings import Settings
from sinks.watches import Heartbeats, Slots
from tests.e2e.waiting import until
from tests.integration.cdc.conftest import Cdc, settings_of
from tests.integration.db.conftest import Topics, headers_of, row_of, topics_of, wait_until_read
from tests.integration.db.crm import AI, GROUP_LINK, insert_event
from tests.integration.db.test_relay_crashes import assert_all_there_in_order, load

COLUMNS = (
    "x_bool bool, x_i2 smallint, x_i8 bigint, x_num numeric(10,2), x_num2 numeric, x_f8 double precision,"
    " x_f4 real, x_date date, x_ts timestamp, x_ts3 timestamp(3), x_tz3 timestamptz(3), x_time time,"
    " x_bytea bytea, x_json json, x_jb jsonb, x_enum mood, x_vc varchar(20), x_char char(5), x_i4a int[],"
    " x_uuida uuid[], x_ta text[], x_inet inet, x_ja jsonb[], x_tza timestamptz[], x_na numeric[],"
    " x_ba bool[], x_oid oid"
)
FULL = {
    "x_bool": True,
    "x_i2": -3,
    "x_i8": 9007199254740993,
    "x_num": "12.30",
    "x_num2": "1e20",
    "x_f8": 1.5,
    "x_f4": 0.1,
    "x_date": "2024-02-29",
    "x_ts": "2024-01-02 03:04:05.000001",
    "x_ts3": "2024-01-02 03:04:05.123",
    "x_tz3": "2024-01-02 03:04:05.5Z",
    "x_time": "13:00:00.5",
    "x_bytea": b"\x00\xff",
    "x_json": '{ "k" : 1.50, "k" : 2 }',
    "x_jb": '{"b": 1, "a": "\\u00e7"}',
    "x_enum": "sad",
    "x_vc": "vc",
    "x_char": "ch",
    "x_i4a": [1, None, 3],
    "x_uuida": "{22222222-2222-4222-8222-22222222222A}",
    "x_ta": ["x", 'y "q"', None, "NULL", "", "a\\b{},"],
    "x_inet": "10.0.0.1",
    "x_ja": '{"{\\"a\\":1}"}',
    "x_tza": '{"2024-01-02 03:04:05Z"}',
    "x_na": "{1.50,2}",
    "x_ba": [True, False],
    "x_oid": 12,
    "last_error": 'á\t"\x01 <é> \U0001f600 \u2028',
    "consumed_by": ["one", "two"],
    "metadata": '{"a": [1, 2]}',
    "next_attempt_at": "infinity",
}
LEAST = {
    "x_f8": "NaN",
    "x_f4": "-Infinity",
    "x_num2": "0.000001",
    "x_date": "1960-01-01",
    "x_ts": "1960-01-01",
    "created_at": "1999-12-31 23:59:59.999999Z",
    "updated_at": "-infinity",
}


def insert_row(connection: psycopg.Connection[Any], **values: object) -> str:
    row = {"organization_id": uuid4(), "event_type": AI, "payload": "{}", **values}
    names = ", ".join(row)
    query = f"INSERT INTO event_log ({names}) VALUES ({', '.join(['%s'] * len(row))}) RETURNING id"
    made = connection.execute(query, list(row.values())).fetchone()  # type: ignore[arg-type]
    assert made is not None
    return str(made[0])


def add_columns(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TYPE mood AS ENUM ('happy', 'sad')")
    for column in COLUMNS.replace("(10,2)", "(10;2)").split(", "):
        connection.execute(f"ALTER TABLE event_log ADD COLUMN {column.replace(';', ',')}")  # type: ignore[arg-type]


def by_event(messages: list[Message]) -> dict[str, tuple[object, ...]]:
    """What a record is, by its event: key, value, headers in their order, partition."""
    found: dict[str, tuple[object, ...]] = {}
    for one in messages:
        value = as_kafka_connect_writes(one.value() or b"")
        event = headers_of(one)["event_id"].decode()
        found[event] = (one.key(), value, one.headers(), one.partition())
    return found


def as_kafka_connect_writes(value: bytes) -> bytes:
    """The one difference in bytes, none in meaning: what is beyond 16 bits it writes as two escapes."""

    def escaped(found: re.Match[str]) -> str:
        return "".join(f"\\u{unit:04X}" for unit in struct.unpack(">2H", found[0].encode("utf-16-be")))

    return re.sub("[\U00010000-\U0010ffff]", escaped, value.decode()).encode()


@contextmanager
def relay_beside(url: str, kafka: str, settings: Settings) -> Iterator[Topics]:
    """The relay on the same rows, to topics of its own."""
    stop = threading.Event()
    with topics_of(kafka, settings) as topics:
        thread = threading.Thread(target=run_relay, args=(url, kafka, settings, stop))
        thread.start()
        try:
            wait_until_read(url, settings.slot)
            yield topics
        finally:
            stop.set()
            thread.join(30)


def test_both_publishers_make_the_same_records_of_the_same_rows(
    cdc: Cdc, database: str, kafka: str, prefix: str
) -> None:
    with (
        psycopg.connect(database, autocommit=True) as connection,
        relay_beside(database, kafka, settings_of(f"r{prefix}")) as relayed,
    ):
        add_columns(connection)
        contact = str(uuid4()).upper()
        payload = {"contact_id": contact, "n": 1.50, "á": 'ç\n\x1f\\/" <é>\U0001f600', "big": 10**25}
        sent = {
            insert_row(connection, payload=json.dumps(payload), **FULL),
            insert_row(connection, **LEAST),
            insert_row(connection, payload=json.dumps({"contact_id": contact, "text": "é" * 70_000})),
            insert_row(connection, payload="[1]"),
            insert_row(connection, entity_kind="message", entity_id=str(uuid4()).upper()),
        }
        link = insert_event(connection, event_type=GROUP_LINK, payload={"phone": "+5511988887777"})
        insert_event(connection, event_type="message.received")
        insert_event(connection, status="done")
        connection.execute("UPDATE event_log SET last_error = 'later'")
        with connection.transaction(force_rollback=True):
            insert_event(connection)
        for name, events in ((AI, sent), (GROUP_LINK, {link})):
            ours, theirs = (by_event(one.read(name, len(events))) for one in (relayed, cdc.topics))
            assert ours.keys() == theirs.keys() == events
            for event in events:
                assert theirs[event] == ours[event]


def test_a_connector_is_registered_once_and_says_how_it_fares(
    cdc: Cdc, database: str, connect: EmbeddedConnect
) -> None:
    assert [one.changed or one.new_slot or bool(one.backfilled) for one in cdc.register()] == [False, False]
    seen = cdc.all.status()
    assert [one.trouble for one in seen] == [None, None]
    assert all(one.slot is not None and one.slot.active for one in seen)
    settings = cdc.settings.model_copy(update={"connect_url": connect.url, "database_url": database})
    with psycopg.connect(database, autocommit=True) as connection:
        assert debezium_publishes(connection, settings)
        assert {one.level for one in connector_verdicts(connection, settings)} == {"ok"}


def test_nobody_at_the_address_of_kafka_connect_is_told_with_what_to_do() -> None:
    with Connect("http://127.0.0.1:9") as nobody, pytest.raises(ConnectAway, match="RAJADA_CONNECT_URL"):
        nobody.names()


def test_br_51_the_slot_advances_while_only_others_write(cdc: Cdc, database: str) -> None:
    """BR-51: no event rows, heavy writes elsewhere: the heartbeat lets Postgres drop its WAL."""
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("CREATE TABLE elsewhere (filler text)")
        connection.execute("INSERT INTO elsewhere SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
        row = connection.execute("SELECT pg_current_wal_lsn() - '0/0'::pg_lsn").fetchone()
        assert row is not None
    written = int(row[0])

    def confirmed() -> int:
        slot = cdc.slot()
        return slot.confirmed_flush_lsn or 0 if slot is not None else 0

    until(lambda: confirmed() >= written, 20, every=0.1)
    assert cdc.topics.read(AI, 0) == [], "a sign of life is no event"


def test_br_53_columns_come_change_their_names_and_go(cdc: Cdc, database: str) -> None:
    """BR-53: a column added, renamed, dropped: the connector stays up, the records stay readable."""
    changes = (
        "ADD COLUMN extra integer DEFAULT 7",
        "RENAME COLUMN extra TO other",
        "ALTER COLUMN other TYPE text",
        "DROP COLUMN other",
    )
    with psycopg.connect(database, autocommit=True) as connection:
        events = [insert_event(connection)]
        for change in changes:
            connection.execute(f"ALTER TABLE event_log {change}")  # type: ignore[arg-type]
            events.append(insert_event(connection))
    messages = {headers_of(one)["event_id"].decode(): one for one in cdc.topics.read(AI, len(events))}
    assert messages.keys() == set(events)
    assert [{"extra", "other"} & row_of(messages[event]).keys() for event in events] == [
        set(), {"extra"}, {"other"}, {"other"}, set()
    ]  # fmt: skip
    assert cdc.seen().trouble is None


def test_br_49_a_slot_that_is_gone_is_seen_told_and_healed(
    cdc: Cdc, database: str, connect: EmbeddedConnect
) -> None:
    """BR-49: the slot is dropped, rows are inserted: nothing goes on in silence, and no row is lost."""
    settings = cdc.settings.model_copy(update={"connect_url": connect.url, "database_url": database})
    with psycopg.connect(database, autocommit=True) as connection:
        before = insert_event(connection)
        cdc.topics.read(AI, 1)
        cdc.drop_slot()
        missed = {insert_event(connection) for _ in range(100)}
        until(lambda: cdc.seen().condition.state == "FAILED", 30, every=0.1)
        assert cdc.slot() is None, "Debezium makes no slot anew by which rows would be lost"
        trouble = cdc.seen().trouble
        assert trouble is not None and "slot is gone" in trouble.found
        told = connector_verdicts(connection, settings)
        assert [one.level for one in told] == ["fail", "ok"] and "connector register" in told[0].advice
        assert [row.title for row in Slots(settings).look(connection)] == [title("slot_lost")]
        healed = cdc.register()[0]
        assert (healed.new_slot, healed.backfilled) == (True, 101)
        after = insert_event(connection)
        arrived = {row_of(one)["id"] for one in cdc.topics.read(AI, 103)}
        assert arrived == {before, after} | missed
        assert Slots(settings).look(connection) == [] and cdc.seen().trouble is None


def test_a_connector_that_gives_no_sign_of_life_is_told(cdc: Cdc, database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        assert Heartbeats("en").look(connection) == []
        cdc.connect.stop(cdc.dispatch)
        cdc.connect.wait_for(cdc.dispatch, "STOPPED", 20)
        connection.execute(
            "UPDATE rajada.heartbeats SET beat_at = now() - interval '3 minutes' WHERE slot = %s",
            [cdc.dispatch],
        )
        (silent,) = Heartbeats("en").look(connection)
        assert silent.title == title("publisher_silent", "en") and "3" in silent.body
        trouble = cdc.seen().trouble
        assert trouble is not None and "stopped by somebody" in trouble.found


def test_br_49_a_slot_made_anew_behind_the_connectors_back_is_no_secret(cdc: Cdc, database: str) -> None:
    """BR-49: somebody mends the slot by hand: what lies between the two is noticed all the same."""
    with psycopg.connect(database, autocommit=True) as connection:
        cdc.connect.stop(cdc.dispatch)
        cdc.connect.wait_for(cdc.dispatch, "STOPPED", 20)
        cdc.drop_slot()
        missed = insert_event(connection)
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [cdc.dispatch])
        cdc.connect.resume(cdc.dispatch)
        until(lambda: cdc.seen().condition.state == "FAILED", 30, every=0.1)
        trouble = cdc.seen().trouble
        assert trouble is not None and "made anew" in trouble.found
        assert cdc.register()[0].new_slot
        assert [row_of(one)["id"] for one in cdc.topics.read(AI, 1)] == [missed]


def test_the_role_that_is_made_for_it_is_enough(
    kafka: str, database: str, prefix: str, connect: EmbeddedConnect
) -> None:
    names = prefix.replace(".", "_")
    login = make_conninfo(database, user=f"{names}debezium", password="any")
    settings = settings_of(prefix, connect_database_url=login)
    with (
        psycopg.connect(database, autocommit=True) as owner,
        topics_of(kafka, settings) as topics,
        Connect(connect.url) as rest,
    ):
        roles.apply(owner, ["debezium"], names)
        cdc = Cdc(database, kafka, settings, rest, topics)
        try:
            cdc.register()
            event = insert_event(owner)
            assert [row_of(one)["id"] for one in topics.read(AI, 1)] == [event]
            assert cdc.seen().trouble is None
        finally:
            cdc.all.remove()
            owner.execute(f"DROP OWNED BY {names}debezium")  # type: ignore[arg-type]
            owner.execute(f"DROP ROLE {names}debezium")  # type: ignore[arg-type]


@pytest.mark.long
def test_kill_9_under_load_loses_nothing_and_keeps_the_order(
    cdc: Cdc, database: str, connect: EmbeddedConnect
) -> None:
    with load(database, 20, 0.01) as written:
        cdc.topics.read(AI, 200)
        connect.kill()
        connect.start()
        until(lambda: cdc.seen().condition.running, 60, every=0.1)
        time.sleep(1)
    assert_all_there_in_order(cdc.topics, written[0])
    assert cdc.seen().trouble is None


def test_postgres_is_restarted_and_killed_and_debezium_goes_on_by_itself(
    kafka: str, prefix: str, connect: EmbeddedConnect, tmp_path: Path
) -> None:
    settings = settings_of(prefix)
    with (
        EmbeddedPostgres(tmp_path / "postgres") as server,
        topics_of(kafka, settings) as topics,
        Connect(connect.url) as rest,
    ):
        server.ensure_database("crm")
        url = server.url_of("crm")
        migrate(url, crm="ours")
        cdc = Cdc(url, kafka, settings, rest, topics)
        cdc.register()
        events = set()
        for down in (server.stop, server.kill):
            with psycopg.connect(url, autocommit=True) as connection:
                events |= {insert_event(connection) for _ in range(20)}
            down()
            server.start()
            with psycopg.connect(url, autocommit=True) as connection:
                events |= {insert_event(connection) for _ in range(20)}
        assert {row_of(one)["id"] for one in topics.read(AI, len(events))} == events
        assert cdc.seen().trouble is None
        cdc.all.remove()
