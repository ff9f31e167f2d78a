"""The sweep on real Kafka and Postgres: what it publishes again, what it leaves, and what holds it back."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import psycopg
import pytest
from aiokafka.partitioner import murmur2
from confluent_kafka import Consumer, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from db.sweep_claims import Claims
from settings import RajadaError, Settings
from streams import topics
from streams.lag import Lags
from streams.sweeping import Pace, Round, Sweeper, conditions

ORGANIZATION = "11111111-1111-4111-8111-111111111111"
EVENT_TYPE = "ai_agent.dispatch_requested"
PARTITIONS = 2
OLD = timedelta(minutes=10)
PLAIN = Pace()


@dataclass
class Place:
    """An installation with topics and tables, installed an hour ago, and nothing that runs."""

    url: str
    bootstrap: str
    settings: Settings
    connection: psycopg.Connection

    @property
    def source(self) -> str:
        return self.settings.topic(topics.SOURCE)

    def event(self, *, age: timedelta = OLD, **columns: object) -> str:
        """An event that the relay never saw, created `age` ago."""
        event_id = str(uuid4())
        created = datetime.now(UTC) - age
        row = {
            "id": event_id,
            "organization_id": ORGANIZATION,
            "event_type": EVENT_TYPE,
            "payload": json.dumps({"contact_id": str(uuid4()), "inbound_message_id": str(uuid4())}),
            "created_at": created,
            "updated_at": created,
            **columns,
        }
        names = ", ".join(row)
        places = ", ".join(["%s"] * len(row))
        self.connection.execute(f"INSERT INTO event_log ({names}) VALUES ({places})", list(row.values()))  # type: ignore[arg-type]
        return event_id

    def sweep(self, *, at_once: bool = False, since: datetime | None = None, pace: Pace = PLAIN) -> Round:
        """One round by hand."""
        which = conditions(self.settings, since=since, at_once=at_once)
        sweeper = Sweeper(self.bootstrap, self.settings, threading.Event())
        with Claims(self.url) as claims:
            return sweeper.round(claims, which, pace)

    def published(self, topic: str | None = None) -> list[Message]:
        """Every record of the source topic."""
        topic = topic or self.source
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": str(uuid4())})
        found: list[Message] = []
        for partition in range(PARTITIONS):
            where = TopicPartition(topic, partition)
            _, end = consumer.get_watermark_offsets(where, timeout=10)
            consumer.assign([TopicPartition(topic, partition, 0)])
            while end and (not found or found[-1].partition() != partition or found[-1].offset() < end - 1):
                message = consumer.poll(10)
                assert message is not None and message.error() is None
                found.append(message)
        consumer.close()
        return found

    def published_ids(self) -> list[str]:
        return [json.loads(message.value() or b"")["id"] for message in self.published()]

    def produce(self, topic: str, *, age_s: float, count: int = 1, partition: int = 0) -> None:
        """Records that a reader has yet to handle."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for _ in range(count):
            at_ms = int((time.time() - age_s) * 1000)
            producer.produce(topic, b"x", partition=partition, timestamp=at_ms)
        assert producer.flush(10) == 0

    def commit(self, *, partition: int = 0, offset: int) -> None:
        """The worker's group says how far it is."""
        group = self.settings.topic(topics.APP_ID)
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group})
        consumer.commit(offsets=[TopicPartition(self.source, partition, offset)], asynchronous=False)
        consumer.close()

    def written(self, offset: int, partition: int = 0) -> None:
        """The sink says how far it is."""
        outcomes = self.settings.topic(topics.OUTCOMES)
        self.connection.execute(
            "INSERT INTO rajada.sink_offsets (topic_id, topic, partition, next_offset)"
            " VALUES (%s, %s, %s, %s)"
            " ON CONFLICT (topic_id, partition) DO UPDATE SET next_offset = excluded.next_offset",
            [Lags(self.bootstrap).topic_id(outcomes), outcomes, partition, offset],
        )

    def swept(self) -> dict[str, int]:
        return dict(self.connection.execute("SELECT event_id::text, sweeps FROM rajada.swept").fetchall())


@pytest.fixture
def place(database: str, kafka: str, prefix: str) -> Iterator[Place]:
    settings = Settings(
        topic_prefix=prefix, partitions=PARTITIONS, DATABASE_URL=database, KAFKA_BOOTSTRAP_SERVERS=kafka
    )
    admin = AdminClient({"bootstrap.servers": kafka})
    names = [settings.topic(one) for one in (topics.SOURCE, topics.GROUP_LINKS, topics.OUTCOMES, topics.DEAD)]
    for future in admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in names]).values():
        future.result(30)
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute("UPDATE rajada.meta SET installed_at = now() - interval '1 hour'")
        yield Place(database, kafka, settings, connection)
    for future in admin.delete_topics(names).values():
        future.result(30)


def test_a_lost_event_is_published_as_the_publisher_would_have(place: Place) -> None:
    created = datetime(2026, 1, 2, 3, 4, 5, 678901, UTC)
    place.connection.execute("UPDATE rajada.meta SET installed_at = '2026-01-01Z'")
    event_id = place.event(
        created_at=created, outcome_replay=77, consumed_by=["agent-engine"], metadata='{"a": 1}'
    )
    done = place.sweep()
    assert (done.published, done.ended, done.held, done.by_type) == (1, True, None, {EVENT_TYPE: 1})
    (message,) = place.published()
    row = json.loads(message.value() or b"")
    contact_id = json.loads(row["payload"])["contact_id"]
    assert message.key() == f"{ORGANIZATION}:{contact_id}".encode()
    assert message.partition() == murmur2(message.key()) % 2**31 % PARTITIONS
    assert dict(message.headers() or []) == {
        "cdc_op": b"r",
        "cdc_source_lsn": b"0",
        "cdc_source_ts_ms": str(int(created.timestamp() * 1000)).encode(),
        "event_id": event_id.encode(),
        "event_type": EVENT_TYPE.encode(),
        "replay": b"77",
    }
    assert (row["id"], row["status"], row["consumed_by"]) == (event_id, "pending", ["agent-engine"])
    assert row["created_at"] == "2026-01-02T03:04:05.678901Z"
    assert isinstance(row["payload"], str) and json.loads(row["metadata"]) == {"a": 1}


def test_it_takes_what_is_stuck_and_leaves_everything_else(place: Place) -> None:
    ago = datetime.now(UTC) - timedelta(seconds=1)
    ahead = datetime.now(UTC) + timedelta(minutes=1)
    ours = {"status": "processing", "consumed_by": ["other", "agent-engine"]}
    taken = [
        place.event(),
        place.event(next_attempt_at=ago),
        place.event(**ours),
    ]
    left = [
        place.event(age=timedelta(minutes=4)),
        place.event(next_attempt_at=ahead),
        place.event(status="done"),
        place.event(status="dead"),
        place.event(**{**ours, "consumed_by": ["other"]}),
        place.event(**{**ours, "updated_at": datetime.now(UTC)}),
        place.event(event_type="message.created"),
        place.event(age=timedelta(hours=2)),
    ]
    assert place.sweep().published == len(taken)
    assert sorted(place.published_ids()) == sorted(taken)
    assert set(place.swept()) == set(taken) and not set(left) & set(place.swept())


@pytest.mark.long
def test_a_backoff_doubles_from_5_minutes_to_6_hours(place: Place) -> None:
    event_id = place.event()
    minutes = []
    for sweeps in range(9):
        if sweeps:
            place.connection.execute("UPDATE rajada.swept SET next_sweep_at = now()")
        assert place.sweep().published == 1
        assert place.sweep().published == 0, "its backoff is not over"
        query = "SELECT extract(epoch FROM next_sweep_at - last_swept_at) / 60 FROM rajada.swept"
        row = place.connection.execute(query).fetchone()
        assert row is not None
        minutes.append(float(row[0]))
    assert minutes == [5, 10, 20, 40, 80, 160, 320, 360, 360]
    assert place.swept() == {event_id: 9}


def test_by_hand_the_backoff_can_be_passed_over_once(place: Place) -> None:
    events = {place.event() for _ in range(5)}
    assert place.sweep().published == 5
    again = place.sweep(at_once=True, pace=Pace(page=2))
    assert (again.published, again.pages, again.ended) == (5, 3, True)
    assert set(place.swept().values()) == {2}
    assert set(place.published_ids()) == events


def test_older_rows_are_taken_by_a_backfill_only(place: Place) -> None:
    old = place.event(age=timedelta(days=3))
    older = place.event(age=timedelta(days=9))
    assert place.sweep().published == 0
    since = datetime.now(UTC) - timedelta(days=7)
    with Claims(place.url) as claims:
        (waiting,) = claims.waiting(conditions(place.settings, since=since))
    assert (waiting.organization_id, waiting.events, waiting.week, waiting.swept) == (ORGANIZATION, 1, 1, 0)
    assert place.sweep(since=since).published == 1
    assert place.published_ids() == [old] and older not in place.swept()


@pytest.mark.parametrize("partition", range(2))
def test_it_holds_while_the_worker_is_behind(place: Place, partition: int) -> None:
    place.event()
    place.produce(place.source, age_s=120, count=2, partition=partition)
    place.produce(place.source, age_s=30, count=2, partition=partition)
    held = place.sweep()
    assert held.held == f"the worker is more than 60 s behind (2 records of {place.source})"
    assert (held.published, place.swept()) == (0, {})
    place.commit(partition=partition, offset=1)
    assert "(1 records" in (place.sweep().held or "")
    place.commit(partition=partition, offset=2)
    done = place.sweep()
    assert (done.held, done.published) == (None, 1), "two young records wait: that is no lag"


def test_it_holds_while_the_sink_is_behind(place: Place) -> None:
    place.event()
    outcomes = place.settings.topic(topics.OUTCOMES)
    place.produce(outcomes, age_s=61, count=3)
    place.produce(outcomes, age_s=1)
    assert place.sweep().held == f"the sink is more than 60 s behind (3 records of {outcomes})"
    place.written(2)
    assert "(1 records" in (place.sweep().held or "")
    place.written(3)
    assert place.sweep().published == 1


def test_a_position_of_a_topic_that_is_gone_says_nothing_of_the_new_one(place: Place) -> None:
    place.event()
    outcomes = place.settings.topic(topics.OUTCOMES)
    place.connection.execute(
        "INSERT INTO rajada.sink_offsets (topic_id, topic, partition, next_offset)"
        " VALUES ('gone', %s, 0, 99)",
        [outcomes],
    )
    place.produce(outcomes, age_s=61)
    assert "the sink" in (place.sweep().held or "")


def test_many_at_once_publish_each_event_once(place: Place) -> None:
    events = [place.event() for _ in range(60)]
    start = threading.Barrier(4)
    rounds: list[Round] = []

    def work() -> None:
        with Claims(place.url) as claims:
            start.wait()
            sweeper = Sweeper(place.bootstrap, place.settings, threading.Event())
            rounds.append(sweeper.round(claims, conditions(place.settings), Pace(page=7)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(rounds) == 4
    assert sum(one.published for one in rounds) == 60
    assert sorted(place.published_ids()) == sorted(events)
    assert set(place.swept().values()) == {1}


def test_while_one_sweeps_another_does_not_begin_and_for_the_rest_of_the_minute_neither(place: Place) -> None:
    place.event()
    others: list[Round] = []

    def other(_: int = 0) -> None:
        others.append(place.sweep())

    assert place.sweep(pace=Pace(before_page=other, rest_s=50)).published == 1
    other()
    assert [one.busy for one in others] == [True, True]
    assert not place.sweep(pace=Pace(by_hand=True)).busy


def test_one_who_lost_the_lease_publishes_nothing_more(place: Place) -> None:
    for _ in range(4):
        place.event()

    def steal(_: int) -> None:
        place.connection.execute("UPDATE rajada.leases SET holder = 'another', held_until = now() + '1 h'")

    assert place.sweep(pace=Pace(page=2, before_page=steal)).published == 2
    assert len(place.swept()) == 2


def test_rows_that_somebody_writes_are_passed_over(place: Place) -> None:
    locked, free = place.event(), place.event()
    with psycopg.connect(place.url) as other:
        other.execute("UPDATE event_log SET attempts = 1 WHERE id = %s", [locked])
        assert place.sweep().published == 1
    assert place.published_ids() == [free]
    assert place.sweep().published == 1


def test_what_could_not_be_sent_comes_up_again_at_once(place: Place) -> None:
    event_id = place.event()

    def fail(_: int) -> None:
        raise RajadaError("Kafka is gone")

    with pytest.raises(RajadaError, match="gone"):
        place.sweep(pace=Pace(before_page=fail))
    assert place.swept() == {event_id: 0}
    assert place.sweep().published == 1
    assert place.swept() == {event_id: 1}


def test_a_round_of_a_worker_ends_after_its_pages(place: Place) -> None:
    for _ in range(5):
        place.event()
    done = place.sweep(pace=Pace(page=2, most_pages=2))
    assert (done.published, done.ended) == (4, False)


def test_what_was_swept_long_ago_is_forgotten(place: Place) -> None:
    place.connection.execute(
        "INSERT INTO rajada.swept (event_id, organization_id, last_swept_at, next_sweep_at)"
        " SELECT gen_random_uuid(), gen_random_uuid(), now() - d * interval '1 day', now()"
        " FROM unnest(ARRAY[29, 31]) d"
    )
    place.sweep()
    assert len(place.swept()) == 1
