"""`rajada produce` on a real Postgres and a real Kafka."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import psycopg
import pytest
from aiokafka.partitioner import murmur2
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record

from ops.event_targets import Table
from ops.produce import Pace, produce
from settings import Settings
from streams.topics import SOURCE, ensure_topics
from tests.command_line import run_rajada

Run = Callable[..., subprocess.CompletedProcess[str]]


def event(**changes: object) -> dict[str, object]:
    """An event of a new contact."""
    names = ("conversation_id", "contact_id", "channel_session_id", "inbound_message_id")
    return {
        "organization_id": str(uuid4()),
        "payload": {name: str(uuid4()) for name in names},
        **changes,
    }


def lines(*events: object) -> str:
    return "".join(f"{json.dumps(one)}\n" for one in events)


@pytest.fixture
def rajada(tmp_path: Path, kafka: str, database: str, prefix: str) -> Run:
    """Runs `rajada produce -` with a text as its standard input."""

    def run(text: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_rajada(
            "produce",
            "-",
            *arguments,
            given=text.encode(),
            env={
                "PATH": "/usr/bin:/bin",
                "KAFKA_BOOTSTRAP_SERVERS": kafka,
                "DATABASE_URL": database,
                "RAJADA_TOPIC_PREFIX": prefix,
                "RAJADA_HOME": str(tmp_path / "home"),
                **environment,
            },
        )

    return run


@pytest.fixture
def topics(kafka: str, prefix: str) -> str:
    """Makes the topics; the source's full name."""
    settings = Settings(topic_prefix=prefix)
    ensure_topics(kafka, settings)
    return settings.topic(SOURCE)


def records(kafka: str, topic: str) -> list[Record]:
    """All committed records of a topic."""
    consumer = Consumer(
        {"bootstrap.servers": kafka, "group.id": str(uuid4()), "enable.partition.eof": True, "log_level": 2}
    )
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[Record] = []
    ended: set[int | None] = set()
    deadline = time.monotonic() + 20
    while len(ended) < len(partitions) and time.monotonic() < deadline:
        record = consumer.poll(0.5)
        if record is None:
            continue
        if record.error():
            ended.add(record.partition())
        else:
            found.append(record)
    consumer.close()
    return found


def test_rows_are_written_in_their_order_and_made_ids_are_told(rajada: Run, database: str) -> None:
    first, second = event(id=str(uuid4()), metadata={"by": "test"}), event()
    done = rajada(lines(first, second))
    assert done.returncode == 0, done.stderr
    number, made = done.stdout.strip().split("\t")
    assert number == "2"
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "SELECT id::text, payload, metadata, status, partition_key FROM event_log"
        ).fetchall()
    assert [row[0] for row in rows] == [first["id"], made]
    assert rows[0][1:4] == (first["payload"], {"by": "test"}, "pending")
    assert rows[1][4] == f"{second['organization_id']}:{second['payload']['contact_id']}"  # type: ignore[index]


def test_one_wrong_line_leaves_the_table_as_it_was(rajada: Run, database: str) -> None:
    wrong = event(payload={"contact_id": "x"})
    done = rajada(lines(event(), wrong), "--json")
    assert done.returncode == 9
    told = json.loads(done.stdout)
    assert (told["lines"], told["refused"], told["written"]) == (2, 1, 0)
    assert told["errors"][0] == {
        "line": 2,
        "field": "payload.conversation_id",
        "what": "is missing, must be a UUID",
    }
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM event_log").fetchone() == (0,)


def test_the_same_file_again_writes_nothing_twice(rajada: Run) -> None:
    text = lines(event(id=str(uuid4())), event(id=str(uuid4())))
    assert rajada(text).returncode == 0
    again = json.loads(rajada(text, "--json").stdout)
    assert (again["written"], again["already"], again["complete"]) == (0, 2, True)


def test_a_row_that_postgres_refuses_is_named_and_the_others_are_written(database: str) -> None:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("ALTER TABLE event_log ADD CHECK (entity_kind <> 'forbidden')")
    texts = [
        json.dumps(event(entity_kind="forbidden" if n == 3 else "message")).encode() for n in range(1, 6)
    ]
    produced = produce([list(enumerate(texts, 1))], Table(database, atomic=False), atomic=False)
    assert produced.written == 4
    assert [error.line for error in produced.errors] == [3]
    assert "Postgres refuses the row" in str(produced.errors[0])


def test_a_rate_is_kept(database: str) -> None:
    begun = time.monotonic()
    texts = [[(n, json.dumps(event()).encode())] for n in range(1, 21)]
    produced = produce(texts, Table(database, atomic=False), atomic=False, pace=Pace(20.0))
    assert produced.written == 20
    assert time.monotonic() - begun >= 0.9


@pytest.mark.parametrize("option", ["--no-atomic", "--atomic"])
def test_records_have_the_key_and_partition_of_the_publisher(
    rajada: Run, kafka: str, topics: str, option: str
) -> None:
    sent = [event(id=str(uuid4())) for _ in range(20)]
    done = rajada(lines(*sent), "--to", "topic", option, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["written"] == 20
    found = {json.loads(record.value() or b"")["id"]: record for record in records(kafka, topics)}
    assert found.keys() == {one["id"] for one in sent}
    for one in sent:
        record = found[str(one["id"])]
        key = f"{one['organization_id']}:{one['payload']['contact_id']}".encode()  # type: ignore[index]
        assert record.key() == key
        assert record.partition() == murmur2(key) % 2**31 % 8
        assert json.loads(json.loads(record.value() or b"")["payload"]) == one["payload"]


def test_an_aborted_run_shows_nobody_a_record(rajada: Run, kafka: str, topics: str) -> None:
    done = rajada(lines(event(), {"payload": 1}), "--to", "topic", "--atomic")
    assert done.returncode == 9
    assert "Nothing was written" in done.stderr
    assert records(kafka, topics) == []


def test_a_missing_topic_is_told_with_what_makes_it(rajada: Run) -> None:
    done = rajada(lines(event()), "--to", "topic")
    assert done.returncode == 7
    assert "rajada topics ensure" in done.stderr and "Traceback" not in done.stderr


def test_a_dry_run_checks_and_writes_nothing(rajada: Run, database: str) -> None:
    done = rajada(lines(event(), {"id": 7}), "--dry-run")
    assert done.returncode == 9
    assert "line 2, id: is a number, must be a UUID" in done.stderr
    with psycopg.connect(database) as connection:
        assert connection.execute("SELECT count(*) FROM event_log").fetchone() == (0,)


def test_wrong_usage_is_told(rajada: Run) -> None:
    assert rajada("", "--to", "queue").returncode == 2
    assert rajada("", "--atomic", "--rate", "5").returncode == 2


def test_a_line_past_the_end_is_told(rajada: Run) -> None:
    done = rajada(lines(event()), "--from-line", "7")
    assert done.returncode == 0
    assert "- has 1 line: --from-line 7 is past its end." in done.stderr
    assert "0 lines, 0 wrong" in done.stderr
    assert "1 line, 0 wrong; 1 event written to event_log" in rajada(lines(event())).stderr


def test_kafka_that_is_away_is_told_once(rajada: Run) -> None:
    """The client's own lines would say it every second."""
    done = rajada(lines(event()), "--to", "topic", KAFKA_BOOTSTRAP_SERVERS="127.0.0.1:1")
    assert done.returncode == 7
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
