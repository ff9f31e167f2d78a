"""Topics, settings and a running relay for the tests here."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import psycopg
import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from db.publisher import EVENT_TYPES
from db.relay import run_relay
from schemas.topic_names import DEAD, OUTCOMES
from settings import Settings
from streams.unpublished import outcome_of_too_large

PARTITIONS = 4
SOURCE_MAX_BYTES = 200_000
DEAD_MAX_BYTES = 300_000


@dataclass(frozen=True)
class Topics:
    """The topics of one test, read whole."""

    bootstrap: str
    settings: Settings

    def read(self, name: str, count: int, timeout_s: float = 30.0) -> list[Message]:
        """At least `count` records of a topic, all that are there, in the order of each partition."""
        consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "none", "enable.auto.commit": False}
        )
        try:
            topic = self.settings.topic(name)
            consumer.assign([TopicPartition(topic, number, 0) for number in range(PARTITIONS)])
            deadline = time.monotonic() + timeout_s
            messages: list[Message] = []
            while len(messages) < count and time.monotonic() < deadline:
                messages += [m for m in consumer.consume(1000, 0.2) if m.error() is None]
            # What is beyond the expected ones must not stay unseen.
            messages += [m for m in consumer.consume(10_000, 0.3) if m.error() is None]
            return messages
        finally:
            consumer.close()


def row_of(message: Message) -> dict[str, object]:
    """The row that a record carries."""
    row = json.loads(message.value() or b"")
    assert isinstance(row, dict)
    return row


def headers_of(message: Message) -> dict[str, bytes]:
    """The headers by name; none comes twice."""
    return {str(name): value for name, value in message.headers() or [] if isinstance(value, bytes)}


def numbers_by_key(messages: list[Message]) -> dict[bytes, list[int]]:
    """payload.n of the records of each key, as they lie in their partition."""
    found: dict[bytes, list[int]] = {}
    for message in messages:
        key = message.key()
        assert isinstance(key, bytes)
        found.setdefault(key, []).append(json.loads(str(row_of(message)["payload"]))["n"])
    return found


@pytest.fixture
def settings(prefix: str) -> Settings:
    """Names of topics, slot and publication that no other test uses."""
    name = prefix.rstrip(".")
    return Settings(topic_prefix=prefix, slot=name, publication=name)


@pytest.fixture
def topics(kafka: str, settings: Settings) -> Iterator[Topics]:
    """The relay's topics on the Kafka that all tests share."""
    with topics_of(kafka, settings) as made:
        yield made


@contextmanager
def topics_of(bootstrap: str, settings: Settings) -> Iterator[Topics]:
    """The relay's topics, small limits on the size of a record; deleted at the end."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    sizes = dict.fromkeys((*EVENT_TYPES, OUTCOMES), SOURCE_MAX_BYTES) | {DEAD: DEAD_MAX_BYTES}
    wanted = [
        NewTopic(settings.topic(name), PARTITIONS, 1, config={"max.message.bytes": str(size)})
        for name, size in sizes.items()
    ]
    for future in admin.create_topics(wanted).values():
        future.result(30)
    for topic in wanted:
        while topic.topic not in admin.list_topics(timeout=10).topics:
            time.sleep(0.05)
    yield Topics(bootstrap, settings)
    for future in admin.delete_topics([topic.topic for topic in wanted]).values():
        future.result(30)


RunningRelay = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def relay(database: str, kafka: str, settings: Settings, topics: Topics) -> RunningRelay:
    """A relay in a thread, entered when its slot is being read."""

    @contextmanager
    def running() -> Iterator[None]:
        stop = threading.Event()
        failure: list[BaseException] = []

        def body() -> None:
            try:
                run_relay(database, kafka, settings, stop, obituary=outcome_of_too_large)
            except BaseException as error:
                failure.append(error)

        thread = threading.Thread(target=body)
        thread.start()
        try:
            wait_until_read(database, settings.slot, lambda: not failure)
            yield
        finally:
            stop.set()
            thread.join(30)
        assert not thread.is_alive()
        if failure:
            raise failure[0]

    return running


def wait_until_read(
    url: str, slot: str, going: Callable[[], bool] = lambda: True, timeout_s: float = 90.0
) -> None:
    """Until a slot has a reader that streams; making it may wait for other tests' transactions."""
    deadline = time.monotonic() + timeout_s
    with psycopg.connect(url, autocommit=True) as connection:
        while going():
            row = connection.execute(
                "SELECT FROM pg_replication_slots s JOIN pg_stat_replication r ON r.pid = s.active_pid "
                "WHERE s.slot_name = %s AND r.state IN ('streaming', 'catchup')",
                (slot,),
            ).fetchone()
            if row is not None:
                return
            assert time.monotonic() < deadline, "nobody reads the slot"
            time.sleep(0.05)
