"""Debezium on a real Kafka Connect: the records are the relay's, and nothing is lost whatever breaks."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from psycopg.conninfo import make_conninfo

from db import roles
from db.migrate import migrate
from db.relay import run_relay
from ops.cdc.connectors import Unfilterable
from ops.cdc.rest import Connect, ConnectAway
from ops.doctor.connectors import connector_verdicts, debezium_publishes
from ops.embedded.connect import EmbeddedConnect
from ops.embedded.postgres import EmbeddedPostgres
from schemas.alert_texts import title
from settings import Settings
from sinks.watches import Heartbeats, Slots
from tests.e2e.waiting import until
from tests.integration.cdc.conftest import Cdc, settings_of
from tests.integration.cdc.rows import FULL, LEAST, add_columns, by_event, insert_row
from tests.integration.db.conftest import (
    SOURCE_MAX_BYTES,
    Topics,
    headers_of,
    row_of,
    topics_of,
    wait_until_read,
)
from tests.integration.db.crm import AI, GROUP_LINK, insert_event
from tests.integration.db.test_relay_crashes import assert_all_there_in_order, load

pytestmark = pytest.mark.long


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
        assert trouble is not None and "lost its slot" in trouble.found
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


def test_br_49_a_slot_that_somebody_mends_by_hand_hides_no_gap(cdc: Cdc, database: str) -> None:
    """BR-49: what lies between the old slot's end and the new one's beginning is noticed all the same."""
    with psycopg.connect(database, autocommit=True) as connection:
        cdc.connect.stop(cdc.dispatch)
        cdc.connect.wait_for(cdc.dispatch, "STOPPED", 20)
        missed = insert_event(connection)
        cdc.drop_slot()
        connection.execute("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [cdc.dispatch])
        cdc.connect.resume(cdc.dispatch)
        until(lambda: cdc.seen().condition.state == "FAILED", 30, every=0.1)
        later = insert_event(connection)
        assert cdc.topics.read(AI, 1, 1) == [], "nothing goes on beyond the gap"
        trouble = cdc.seen().trouble
        assert trouble is not None and "made anew" in trouble.found
        healed = cdc.register()[0]
        assert (healed.new_slot, healed.backfilled) == (True, 2)
        assert {row_of(one)["id"] for one in cdc.topics.read(AI, 2)} == {missed, later}


def test_a_record_too_large_stops_the_connector_until_it_is_told_to_leave_it_out(
    cdc: Cdc, database: str
) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        insert_event(connection, payload={"contact_id": str(uuid4()), "text": "x" * SOURCE_MAX_BYTES})
        until(lambda: cdc.seen().condition.state == "FAILED", 30, every=0.1)
        trouble = cdc.seen().trouble
        assert trouble is not None and "--pass-refused" in trouble.advice
        later = insert_event(connection)
        cdc.register(pass_refused=True)
        assert [row_of(one)["id"] for one in cdc.topics.read(AI, 1)] == [later]
        assert cdc.register()[0].changed, "the next one that is refused stops it again"


def test_columns_that_a_publication_cannot_filter_are_refused(
    kafka: str, database: str, prefix: str, connect: EmbeddedConnect
) -> None:
    settings = settings_of(prefix)
    with psycopg.connect(database) as connection:
        connection.execute(f"CREATE TYPE own AS ENUM ('{AI}', '{GROUP_LINK}')")  # type: ignore[arg-type]
        connection.execute(
            "DROP INDEX event_log_due, rajada_event_log_open, rajada_event_log_dead,"
            " rajada_event_log_processing"
        )
        connection.execute("ALTER TABLE event_log ALTER event_type TYPE own USING event_type::own")
    with topics_of(kafka, settings) as topics, Connect(connect.url) as rest:
        cdc = Cdc(database, kafka, settings, rest, topics)
        with pytest.raises(Unfilterable, match="event_type of the event log"):
            cdc.register()


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
