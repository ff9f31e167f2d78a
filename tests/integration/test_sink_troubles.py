"""What the sink does with what it can't apply, and while Postgres or Kafka are away."""

from __future__ import annotations

import threading
import time
import uuid
from pathlib import Path

import psycopg

from schemas.codec import encode_job, encode_outcome
from schemas.delayed import UNKNOWN_SINCE, WAITS_IN
from settings import Settings
from sinks.outcomes import run_sink
from tests.integration.sink_lab import PARTITIONS, Lab, is_ready, is_waiting, until

AN_HOUR_AGO = (UNKNOWN_SINCE, b"1")
"""A record that came back from the delays for an hour."""


def test_foreign_bytes_die_with_their_bytes_and_hold_nothing_up(lab: Lab) -> None:
    """BR-37: undecodable bytes leave as they came."""
    event = lab.event()
    strange = [b"\xff\x00", b'{"json": true}', b"\xc3\x01" + b"12345678" + b"x", None]
    strange.append(encode_job(lab.job(event)))
    strange.append(encode_outcome(lab.outcome(event))[:-1])
    places = [
        lab.send_bytes(value, partition=1, key=b"k", headers=[("traceparent", b"00-a"), AN_HOUR_AGO])
        for value in strange
    ]
    lab.send(lab.outcome(event), partition=1)
    with lab.sink():
        lab.until_caught_up()
    assert lab.row(event)["status"] == "done"
    letters = {}
    for letter in lab.dead_letters():
        headers = dict(letter.headers() or [])
        letters[int(headers["kafka_dlt-original-offset"])] = (letter, headers)
    reasons = ["not_avro", "not_avro", "unknown_schema", "not_avro", "bad_avro", "bad_avro"]
    for (partition, offset), value, reason in zip(places, strange, reasons, strict=True):
        letter, headers = letters.pop(offset)
        assert letter.value() == value
        assert letter.key() == b"k"
        assert headers["stage"] == b"sink"
        assert headers["reason"] == reason.encode()
        assert headers["kafka_dlt-original-topic"] == lab.outcomes.encode()
        assert headers["kafka_dlt-original-partition"] == str(partition).encode()
        assert headers["traceparent"] == b"00-a"
    assert letters == {}


def test_an_outcome_of_an_unknown_schema_waits_for_a_sink_that_knows_it_and_holds_nothing_up(
    lab: Lab, said: Path
) -> None:
    """It leads back into its partition; until it can be put there, the offset waits."""
    event, value = lab.event(), b"\xc3\x01" + b"12345678" + b"an outcome of tomorrow"
    partition, offset = lab.send_bytes(value, partition=1, key=b"k", headers=[("traceparent", b"00-a")])
    lab.send(lab.outcome(event), partition=1)
    waiting = lab.settings.topic(WAITS_IN)
    with lab.sink():
        until(lambda: is_waiting(said, "unknown schema"), "the sink waits for the delay topic", 60)
        assert lab.offsets()[1] == 0
        lab.create(waiting, PARTITIONS)
        try:
            lab.until_caught_up(90)
            (record,) = lab.records(waiting)
        finally:
            lab.delete(waiting)
    assert lab.row(event)["status"] == "done"
    assert lab.dead_letters() == []
    assert (record.partition(), record.key(), record.value()) == (partition, b"k", value)
    headers = dict(record.headers() or [])
    assert headers["forward-to"] == b"dispatch.outcomes" and headers["traceparent"] == b"00-a"
    assert int(headers["due-at"]) - int(headers["unknown-since"]) == 60_000
    assert offset == 0


def test_what_postgres_refuses_dies_alone(lab: Lab) -> None:
    good = [lab.event() for _ in range(40)]
    outcomes = [lab.outcome(event) for event in good]
    poison = {
        3: lab.outcome("not-a-uuid"),
        17: lab.outcome(lab.event(), status="no such status"),
        18: lab.outcome(lab.event(), last_error="a\x00b"),
        30: lab.outcome(lab.event(), facts="{no json"),
        44: lab.outcome(lab.event(), at_ms=10**17),
    }
    for place, outcome in poison.items():
        outcomes.insert(place, outcome)
    lab.send(*outcomes)
    with lab.sink():
        lab.until_caught_up()
    assert {lab.row(event)["status"] for event in good} == {"done"}
    letters = lab.dead_letters()
    assert sorted(int(dict(letter.headers())["kafka_dlt-original-offset"]) for letter in letters) == [*poison]
    assert {dict(letter.headers())["reason"] for letter in letters} == {b"refused_by_postgres"}
    assert lab.value("SELECT count(*) FROM rajada.trace") == len(good)


def test_a_dead_letter_that_cannot_be_written_holds_the_offset_until_it_can(lab: Lab, said: Path) -> None:
    lab.delete(lab.dead)
    event = lab.event()
    lab.send_bytes(b"strange")
    lab.send(lab.outcome(event))
    with lab.sink():
        until(lambda: is_waiting(said, "dead letters"), "the sink waits for the dead-letter topic", 60)
        assert lab.row(event)["status"] == "pending"
        assert lab.offsets()[0] == 0
        lab.create(lab.dead, PARTITIONS)
        lab.until_caught_up(90)
        until(lambda: is_ready(said), "the sink is ready")
    assert lab.row(event)["status"] == "done"
    assert {letter.value() for letter in lab.dead_letters()} == {b"strange"}


def test_postgres_away_is_waited_out_and_nothing_is_lost(lab: Lab, postgres: str, said: Path) -> None:
    name = psycopg.conninfo.conninfo_to_dict(lab.url)["dbname"]
    events = [str(uuid.uuid4()) for _ in range(600)]
    lab.add_events(events)
    with lab.sink(), psycopg.connect(postgres, autocommit=True) as admin:
        until(lambda: is_ready(said), "the sink is ready")
        lab.spread(lab.outcome(event) for event in events[:200])
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        lab.spread(lab.outcome(event) for event in events[200:400])
        until(lambda: is_waiting(said, "Postgres"), "the sink says that it waits for Postgres")
        time.sleep(3)  # longer than the session timeout: it must stay in its group
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        lab.spread(lab.outcome(event) for event in events[400:])
        lab.until_caught_up()
        until(lambda: is_ready(said), "the sink says that it is ready again")
    assert lab.value("SELECT count(*) FROM event_log WHERE status = 'done'") == len(events)
    assert lab.value("SELECT count(*) FROM rajada.trace") == len(events)


def test_postgres_away_is_noticed_with_nothing_to_write(lab: Lab, postgres: str, said: Path) -> None:
    name = psycopg.conninfo.conninfo_to_dict(lab.url)["dbname"]
    with lab.sink(), psycopg.connect(postgres, autocommit=True) as admin:
        until(lambda: is_ready(said), "the sink is ready")
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        until(lambda: is_waiting(said, "Postgres"), "the sink says that it waits for Postgres")
        admin.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        until(lambda: is_ready(said), "the sink says that it is ready again")


def test_a_database_without_our_columns_is_waited_for_not_buried(lab: Lab, said: Path) -> None:
    event = lab.event()
    lab.execute("ALTER TABLE event_log RENAME COLUMN outcome_seq TO away")
    with lab.sink():
        lab.send_bytes(b"strange")
        lab.send(lab.outcome(event))
        until(lambda: is_waiting(said, "rajada migrate"), "the sink says what to do")
        time.sleep(1)  # some tries
        lab.execute("ALTER TABLE event_log RENAME COLUMN away TO outcome_seq")
        lab.until_caught_up()
        until(lambda: is_ready(said), "the sink is ready")
    assert lab.row(event)["status"] == "done"
    assert [letter.value() for letter in lab.dead_letters()] == [b"strange"]


def test_kafka_away_is_said_and_does_not_hold_the_stop(database: str, said: Path) -> None:
    stop = threading.Event()
    nobody = "127.0.0.1:9"
    thread = threading.Thread(target=run_sink, args=(database, nobody, Settings(), stop))
    thread.start()
    until(lambda: is_waiting(said, "Kafka is away"), "the sink says that it waits for Kafka")
    stop.set()
    thread.join(10)
    assert not thread.is_alive()


def test_a_missing_topic_is_waited_for(lab: Lab, said: Path) -> None:
    lab.delete(lab.outcomes)
    event = lab.event()
    with lab.sink():
        until(lambda: is_waiting(said, "does not exist"), "the sink says which topic is missing")
        lab.create(lab.outcomes, PARTITIONS)
        lab.send(lab.outcome(event))
        lab.until_caught_up(60)
    assert lab.row(event)["status"] == "done"


def test_it_stops_soon_and_leaves_its_group(lab: Lab, said: Path) -> None:
    with lab.sink() as stop:
        until(lambda: is_ready(said), "the sink is ready")
        stopped = time.monotonic()
        stop.set()
    assert time.monotonic() - stopped < 5
    group = lab.settings.topic("rajada-sink")
    described = lab.admin.describe_consumer_groups([group])[group].result(10)
    assert described.members == []
