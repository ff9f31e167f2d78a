"""The relay while Kafka or Postgres themselves are killed: on servers of its own."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest

import status
from db.migrate import migrate
from db.relay import run_relay
from db.replication import slot_status
from ops.embedded.kafka import EmbeddedKafka
from ops.embedded.postgres import EmbeddedPostgres
from settings import Settings
from tests.integration.db.conftest import Topics, numbers_by_key, row_of, topics_of, wait_until_read
from tests.integration.db.crm import AI, insert_event, insert_many


@pytest.fixture(scope="module")
def own_kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka(tmp_path_factory.mktemp("kafka") / "data", heap_mb=256) as server:
        yield server


@pytest.fixture(scope="module")
def own_postgres(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedPostgres]:
    # A slot that lags more than one segment of WAL is lost at the next checkpoint.
    options = {"max_slot_wal_keep_size": "16MB", "min_wal_size": "32MB"}
    with EmbeddedPostgres(tmp_path_factory.mktemp("postgres") / "data", options=options) as server:
        yield server


@pytest.fixture
def own_database(own_postgres: EmbeddedPostgres) -> str:
    url = own_postgres.ensure_database(f"t{uuid4().hex[:12]}")
    migrate(url, crm="ours")
    return url


@pytest.fixture
def own_topics(own_kafka: EmbeddedKafka, settings: Settings) -> Iterator[Topics]:
    with topics_of(own_kafka.bootstrap, settings) as topics:
        yield topics


@pytest.fixture
def readiness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """What the relay last reported: `ready`, or the reason why it waits."""
    monkeypatch.setenv(status.STATUS_DIR, str(tmp_path))

    def told() -> str:
        report = status.read(tmp_path, "relay")
        return "nothing" if report is None else report.reason or report.state

    return told


@contextmanager
def running(url: str, topics: Topics) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=run_relay, args=(url, topics.bootstrap, topics.settings, stop))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)
        assert not thread.is_alive()


def until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.mark.long
def test_kafka_killed_under_load_is_waited_out(
    own_kafka: EmbeddedKafka, own_database: str, own_topics: Topics, readiness: Callable[[], str]
) -> None:
    organization, contacts = uuid4(), [uuid4() for _ in range(5)]
    with running(own_database, own_topics), psycopg.connect(own_database, autocommit=True) as connection:
        wait_until_read(own_database, own_topics.settings.slot)
        insert_many(connection, organization, contacts, 0, 500)
        until(lambda: readiness() == "ready", "never ready")
        insert_many(connection, organization, contacts, 500, 500)
        own_kafka.kill()
        try:
            insert_many(connection, organization, contacts, 1000, 500)
            until(lambda: "acknowledges nothing" in readiness(), readiness())
            # It still lives for Postgres, and holds what Kafka has not.
            found = slot_status(connection, own_topics.settings.slot)
            assert found is not None and found.active
        finally:
            own_kafka.start()
        until(lambda: readiness() == "ready", readiness())
        numbers = numbers_by_key(own_topics.read(AI, 1500))
    assert set().union(*numbers.values()) == set(range(1500))
    assert all(list(dict.fromkeys(found)) == sorted(set(found)) for found in numbers.values())


def test_a_relay_that_finds_no_kafka_waits_for_it(
    own_kafka: EmbeddedKafka, own_database: str, own_topics: Topics, readiness: Callable[[], str]
) -> None:
    own_kafka.kill()
    try:
        with running(own_database, own_topics), psycopg.connect(own_database, autocommit=True) as connection:
            until(lambda: "does not answer" in readiness(), readiness())
            event = insert_event(connection)
            own_kafka.start()
            assert [row_of(m)["id"] for m in own_topics.read(AI, 1, 60)] == [event]
            assert readiness() == "ready"
    finally:
        own_kafka.start()


def test_missing_topics_are_named_and_waited_for(
    own_kafka: EmbeddedKafka, own_database: str, settings: Settings, readiness: Callable[[], str]
) -> None:
    nowhere = Topics(own_kafka.bootstrap, settings)
    with running(own_database, nowhere):
        until(lambda: f"no topic {settings.topic(AI)}" in readiness(), readiness())
        with topics_of(own_kafka.bootstrap, settings):
            until(lambda: readiness() == "ready", readiness())


def test_postgres_killed_under_a_relay_is_waited_out(
    own_postgres: EmbeddedPostgres, own_database: str, own_topics: Topics, readiness: Callable[[], str]
) -> None:
    with running(own_database, own_topics):
        wait_until_read(own_database, own_topics.settings.slot)
        with psycopg.connect(own_database, autocommit=True) as connection:
            first = insert_event(connection)
        own_topics.read(AI, 1)
        own_postgres.kill()
        until(lambda: readiness().startswith("Postgres"), readiness())
        own_postgres.start()
        with psycopg.connect(own_database, autocommit=True) as connection:
            second = insert_event(connection)
        assert [str(row_of(m)["id"]) for m in own_topics.read(AI, 2)][-1] in (first, second)
        until(lambda: readiness() == "ready", readiness())
        ids = {str(row_of(m)["id"]) for m in own_topics.read(AI, 2)}
    assert ids == {first, second}


def test_a_slot_whose_wal_was_removed_is_made_anew_and_the_table_is_read(
    own_database: str, own_topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    slot = own_topics.settings.slot
    with psycopg.connect(own_database, autocommit=True) as connection:
        with running(own_database, own_topics):
            wait_until_read(own_database, slot)
            before = insert_event(connection)
            own_topics.read(AI, 1)
        missed = [insert_event(connection) for _ in range(3)]
        for _ in range(6):
            connection.execute("SELECT pg_logical_emit_message(false, 'filler', 'x'), pg_switch_wal()")
        connection.execute("CHECKPOINT")
        found = slot_status(connection, slot)
        assert found is not None and found.lost
        with running(own_database, own_topics):
            wait_until_read(own_database, slot)
            after = insert_event(connection)
            ids = [str(row_of(m)["id"]) for m in own_topics.read(AI, 5)]
        assert set(ids) == {before, *missed, after}
        found = slot_status(connection, slot)
        assert found is not None and not found.lost
    assert "slot_lost" in capsys.readouterr().out


def test_a_record_says_nothing_of_its_content_in_the_log(
    own_database: str, own_topics: Topics, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = f"+55119{uuid4().int % 10**8:08d}"
    with (
        running(own_database, own_topics),
        psycopg.connect(own_database, autocommit=True) as connection,
    ):
        wait_until_read(own_database, own_topics.settings.slot)
        payload = {"contact_id": str(uuid4()), "phone": secret, "text": "x" * 400_000}
        insert_event(connection, payload=payload)
        insert_event(connection, event_type="group_link.dispatch_requested", payload={"phone": secret})
        (message,) = own_topics.read("group_link.dispatch_requested", 1)
        assert secret in json.dumps(row_of(message))
    told = capsys.readouterr()
    assert "event_too_large" in told.out
    assert secret not in told.out + told.err
