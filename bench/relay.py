"""A publisher: how fast it works off what Postgres has written, and how long a row takes to its topic.

Rows a second: rows are inserted while no publisher reads; then one starts, and the time counts from its being
ready (Debezium: from its connector's being resumed) to the broker's append time of the last record. Latency:
rows are inserted one by one at a steady pace; each counts from before its INSERT is sent until a consumer has
its record. Debezium runs on a Kafka Connect of its own, like `rajada up --with-debezium`.

    python -m bench.relay [--publisher debezium [--exactly-once]] [--rows 100000] [--pace 100] [--seconds 20]
"""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import dataclass
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record

from bench.latency import Latency
from bench.meter import Meter, Reading
from bench.processes import running
from bench.servers import Servers, own_database, own_topics, servers
from db.publisher import EVENT_TYPES
from db.replication import ensure_publication, ensure_slot
from settings import Settings
from streams import topics

CONTACTS = 5_000
PER_TRANSACTION = 10
SOURCE = EVENT_TYPES[0]
PATIENCE_S = 120.0

_FILL = """
DO $$
BEGIN
    FOR step IN 0 .. {steps} - 1 LOOP
        INSERT INTO event_log (organization_id, event_type, payload, metadata)
        SELECT '{organization}', '{event_type}', jsonb_build_object(
            'contact_id', lpad(to_hex((step * {per} + n) % {contacts}), 8, '0') || '{contact}',
            'conversation_id', gen_random_uuid(), 'channel_session_id', gen_random_uuid(),
            'inbound_message_id', gen_random_uuid()), '{{}}'
        FROM generate_series(0, {per} - 1) AS n;
        COMMIT;
    END LOOP;
END
$$
"""

_INSERT = "INSERT INTO event_log (id, organization_id, event_type, payload) VALUES (%s, %s, %s, %s)"


@dataclass(frozen=True, slots=True)
class Backlog:
    """What a publisher did with a backlog."""

    rows: int
    seconds: float
    used: Reading
    """From the beginning of `seconds`, start-up not counted."""

    def __str__(self) -> str:
        """In one line."""
        return (
            f"{self.rows} rows in {self.seconds:.2f} s: {self.rows / self.seconds:,.0f} rows/s, "
            f"{self.used.cpu_s:.1f} s CPU of the publisher, {self.used.peak_mib:.0f} MiB"
        )


def fill(connection: psycopg.Connection[tuple[object, ...]], rows: int) -> None:
    """Inserts so many rows, ten a transaction."""
    connection.execute(
        _FILL.format(
            steps=rows // PER_TRANSACTION,
            per=PER_TRANSACTION,
            contacts=CONTACTS,
            organization=uuid4(),
            event_type=SOURCE,
            contact="-0000-4000-8000-000000000000",
        )
    )


def begin_here(url: str, settings: Settings) -> None:
    """Make slot and publication: a relay that starts later streams what is written from now on.

    Its own note is there, too, so that it reads the stream and not the table.
    """
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("INSERT INTO rajada.relay (slot) VALUES (%s)", (settings.slot,))
        ensure_publication(connection, settings.publication)
        ensure_slot(connection, settings.slot)


def backlog(at: Servers, rows: int) -> Backlog:
    """Rows a second of a relay that starts behind."""
    with own_database(at.admin_url) as url, own_topics(at) as settings:
        topics.ensure_topics(at.bootstrap, settings)
        begin_here(url, settings)
        with psycopg.connect(url, autocommit=True) as connection:
            fill(connection, rows)
        with (
            running("relay", settings=settings, database_url=url) as processes,
            Meter(at.admin_url, processes.values()) as meter,
        ):
            began, before = processes["relay"].wait_ready(), meter.read()
            records = read(at, settings, rows // PER_TRANSACTION * PER_TRANSACTION)
            used = meter.read().since(before)
        ended = max(record.timestamp()[1] for record in records) / 1000
        return Backlog(len(records), ended - began, used)


def latency(at: Servers, pace: float, seconds: float) -> Latency:
    """INSERT to consumer, in ms, at `pace` rows a second."""
    with own_database(at.admin_url) as url, own_topics(at) as settings:
        topics.ensure_topics(at.bootstrap, settings)
        with running("relay", settings=settings, database_url=url) as processes:
            processes["relay"].wait_ready()
            return trickle(at, settings, url, pace, seconds)


def trickle(at: Servers, settings: Settings, url: str, pace: float, seconds: float) -> Latency:
    """INSERT to consumer, in ms, of whoever publishes now."""
    sent: dict[str, float] = {}
    count = int(pace * seconds)
    arrived: dict[str, float] = {}
    consumer = _consumer(at, settings, new_alone=True)
    reader = threading.Thread(target=_note_arrivals, args=(consumer, count, arrived))
    reader.start()
    with psycopg.connect(url, autocommit=True) as connection:
        begun = time.monotonic()
        for number in range(count):
            time.sleep(max(0.0, begun + number / pace - time.monotonic()))
            event = str(uuid4())
            sent[event] = time.monotonic()
            connection.execute(_INSERT, (event, uuid4(), SOURCE, f'{{"contact_id": "{uuid4()}"}}'))
    reader.join(PATIENCE_S)
    return Latency.of([(arrived[event] - at_s) * 1000 for event, at_s in sent.items()])


def _consumer(at: Servers, settings: Settings, *, new_alone: bool = False) -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": at.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
        }
    )
    topic = settings.topic(SOURCE)
    partitions = [TopicPartition(topic, number, 0) for number in range(settings.partitions)]
    for partition in partitions if new_alone else ():
        partition.offset = consumer.get_watermark_offsets(partition)[1]
    consumer.assign(partitions)
    return consumer


def read(at: Servers, settings: Settings, count: int) -> list[Record]:
    """So many records of the messages' topic."""
    consumer = _consumer(at, settings)
    records: list[Record] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(records) < count and time.monotonic() < deadline:
        time.sleep(0.5)  # leaves the cores to what is measured
        records += [r for r in consumer.consume(20_000, 0.1) if r.error() is None]
    consumer.close()
    return records


def _note_arrivals(consumer: Consumer, count: int, arrived: dict[str, float]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(arrived) < count and time.monotonic() < deadline:
        record = consumer.poll(0.5)
        if record is not None and record.error() is None:
            headers = dict(record.headers() or [])
            event_id = headers["event_id"]
            assert isinstance(event_id, bytes)
            arrived.setdefault(event_id.decode(), time.monotonic())
    consumer.close()


def main() -> None:
    """Measure and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--publisher", choices=("relay", "debezium"), default="relay")
    arguments.add_argument("--exactly-once", action="store_true", help="Debezium alone")
    arguments.add_argument("--rows", type=int, default=100_000)
    arguments.add_argument("--pace", type=float, default=100.0)
    arguments.add_argument("--seconds", type=float, default=20.0)
    asked = arguments.parse_args()
    with servers() as at:
        if asked.publisher == "debezium":
            from bench import debezium

            behind, told = debezium.measure(
                at, asked.rows, asked.pace, asked.seconds, exactly_once=asked.exactly_once
            )
        else:
            behind, told = backlog(at, asked.rows), latency(at, asked.pace, asked.seconds)
        print(f"backlog: {behind}")
        print(
            f"insert to consumer at {asked.pace:.0f}/s: p50 {told.p50:.1f} ms, p99 {told.p99:.1f} ms, "
            f"least {told.least:.1f} ms, most {told.most:.1f} ms ({told.count} rows)"
        )


if __name__ == "__main__":
    main()
