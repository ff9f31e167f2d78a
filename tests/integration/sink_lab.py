"""A place to test the sink: topics and rows of its own, outcomes, and sinks as threads or processes."""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import psycopg
from confluent_kafka import Consumer, Message, Producer, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

import status
from schemas.codec import encode_outcome
from schemas.records import EventOutcome, EventRef, Job, Outcome
from schemas.topic_names import DEAD, OUTCOMES
from settings import Settings
from sinks.outcomes import run_sink

PARTITIONS = 4


def until(true: Callable[[], object], what: str, timeout_s: float = 30.0) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline, f"not within {timeout_s:.0f} s: {what}"
        time.sleep(0.02)


def sink_process(url: str, bootstrap: str, settings: Settings) -> None:
    """Body of a sink's process; SIGTERM stops it as `rajada sink` would be stopped."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    run_sink(url, bootstrap, settings, stop)


@dataclass
class Lab:
    """Topics, a database with an organization and a contact, and what was sent."""

    url: str
    bootstrap: str
    settings: Settings
    organization: str = field(default_factory=lambda: str(uuid.uuid4()))
    contact: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 1})
        self.outcomes = self.settings.topic(OUTCOMES)
        self.dead = self.settings.topic(DEAD)
        self.create(self.outcomes, PARTITIONS)
        self.create(self.dead, PARTITIONS)
        self.execute("INSERT INTO organizations (id) VALUES (%s)", self.organization)
        self.execute(
            "INSERT INTO contacts (id, organization_id) VALUES (%s, %s)", self.contact, self.organization
        )

    # -- Kafka

    def create(self, topic: str, partitions: int) -> None:
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        until(lambda: topic in self.admin.list_topics(timeout=5).topics, f"{topic} is visible")

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])[topic].result(30)
        until(lambda: topic not in self.admin.list_topics(timeout=5).topics, f"{topic} is gone")

    def close(self) -> None:
        there = self.admin.list_topics(timeout=5).topics
        for topic in (self.outcomes, self.dead):
            if topic in there:
                self.admin.delete_topics([topic])[topic].result(30)

    def send_bytes(self, value: bytes | None, partition: int = 0, **kwargs: Any) -> tuple[int, int]:
        """One record onto the outcomes; where it went."""
        return self._send([(value, partition)], **kwargs)[0]

    def send(self, *outcomes: Outcome, partition: int = 0) -> list[tuple[int, int]]:
        """Outcomes onto one partition; where they went."""
        return self._send([(encode_outcome(outcome), partition) for outcome in outcomes])

    def spread(self, outcomes: Iterable[Outcome]) -> list[tuple[int, int]]:
        """Outcomes round robin onto all partitions; where they went."""
        return self._send([(encode_outcome(o), n % PARTITIONS) for n, o in enumerate(outcomes)])

    def _send(self, items: list[tuple[bytes | None, int]], **kwargs: Any) -> list[tuple[int, int]]:
        where: list[tuple[int, int]] = [(0, 0)] * len(items)

        def delivered(n: int) -> Callable[[Any, Message], None]:
            def told(error: object, message: Message) -> None:
                assert error is None
                where[n] = (message.partition() or 0, message.offset() or 0)

            return told

        for n, (value, partition) in enumerate(items):
            self.producer.produce(
                self.outcomes, value=value, partition=partition, on_delivery=delivered(n), **kwargs
            )
            self.producer.poll(0)
        assert self.producer.flush(30) == 0
        return where

    def topic_id(self) -> str:
        described = self.admin.describe_topics(TopicCollection([self.outcomes]))
        return str(described[self.outcomes].result(10).topic_id)

    def ends(self, topic: str) -> dict[int, int]:
        """Partition → end of its log, as committed readers see it."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "lab"})
        try:
            return {
                p: consumer.get_watermark_offsets(TopicPartition(topic, p), timeout=10)[1]
                for p in range(PARTITIONS)
            }
        finally:
            consumer.close()

    def dead_letters(self) -> list[Message]:
        """All records of the dead-letter topic."""
        return self.records(self.dead)

    def records(self, topic: str) -> list[Message]:
        """All records of a topic."""
        ends = {p: end for p, end in self.ends(topic).items() if end}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "lab"})
        found: list[Message] = []
        try:
            consumer.assign([TopicPartition(topic, p, 0) for p in ends])
            deadline = time.monotonic() + 10
            while len(found) < sum(ends.values()):
                assert time.monotonic() < deadline
                message = consumer.poll(0.2)
                if message is not None and message.error() is None:
                    found.append(message)
        finally:
            consumer.close()
        return found

    # -- Postgres

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)  # type: ignore[arg-type]  # plain text is fine here
            return cursor.fetchall() if cursor.description else []

    def value(self, statement: str, *values: object) -> Any:
        """The first column of the first row."""
        return self.execute(statement, *values)[0][0]

    def add_events(self, ids: Iterable[str]) -> None:
        with psycopg.connect(self.url) as connection:
            statement = "COPY event_log (id, organization_id, event_type, payload) FROM STDIN"
            with connection.cursor().copy(statement) as copy:
                for one in ids:
                    payload = (
                        f'{{"conversation_id": "{uuid.uuid4()}", "inbound_message_id": "{uuid.uuid4()}"}}'
                    )
                    copy.write_row((one, self.organization, "ai_agent.dispatch_requested", payload))

    def event(self) -> str:
        """A new event with a row."""
        name = str(uuid.uuid4())
        self.add_events([name])
        return name

    def offsets(self) -> dict[int, int]:
        """Partition → next offset, of the topic as it is now."""
        rows = self.execute(
            "SELECT partition, next_offset FROM rajada.sink_offsets WHERE topic_id = %s", self.topic_id()
        )
        return dict(rows)

    def caught_up(self) -> bool:
        """Whether every record is applied."""
        return self.offsets() == self.ends(self.outcomes)

    def until_caught_up(self, timeout_s: float = 60.0) -> None:
        until(self.caught_up, "the sink has caught up", timeout_s)

    def row(self, event: str) -> dict[str, Any]:
        """An event's row."""
        with psycopg.connect(self.url, row_factory=psycopg.rows.dict_row) as connection:
            found = connection.execute("SELECT * FROM event_log WHERE id = %s", [event]).fetchone()
            assert found is not None
            return found

    def job_row(self, job: str) -> dict[str, Any] | None:
        """A job's row."""
        with psycopg.connect(self.url, row_factory=psycopg.rows.dict_row) as connection:
            return connection.execute("SELECT * FROM job_queue WHERE id = %s", [job]).fetchone()

    # -- outcomes

    def outcome(self, *events: str | EventOutcome, **changed: Any) -> Outcome:
        """An outcome of events, done with a stop unless told otherwise."""
        values: dict[str, Any] = {
            "organization_id": self.organization,
            "contact_id": self.contact,
            "at_ms": time.time_ns() // 1_000_000,
            "stage": "decide",
            "events": tuple(
                EventOutcome(event_id=one, seq=1, attempts=1) if isinstance(one, str) else one
                for one in events
            ),
            "status": "done",
            "outcome": "superseded_by_newer_inbound",
        }
        return Outcome(**(values | changed))

    def job(self, event: str, **changed: Any) -> Job:
        """The job of one event."""
        at_ms = time.time_ns() // 1_000_000
        values: dict[str, Any] = {
            "id": str(uuid.uuid4()),
            "organization_id": self.organization,
            "contact_id": self.contact,
            "kind": "inbound_turn",
            "source_event_id": event,
            "seq": 2,
            "created_at_ms": at_ms,
            "run_after_ms": at_ms,
            "payload": f'{{"event_ids": ["{event}"]}}',
            "events": (EventRef(event),),
        }
        return Job(**(values | changed))

    # -- sinks

    @contextlib.contextmanager
    def sink(self) -> Iterator[threading.Event]:
        """A sink in a thread; stopped, and looked at for errors, at the end."""
        stop = threading.Event()
        failed: list[BaseException] = []

        def body() -> None:
            try:
                run_sink(self.url, self.bootstrap, self.settings, stop)
            except BaseException as error:
                failed.append(error)
                raise

        thread = threading.Thread(target=body)
        thread.start()
        try:
            yield stop
        finally:
            stop.set()
            thread.join(30)
            assert not thread.is_alive(), "the sink did not stop"
            assert not failed, failed

    def process(self) -> BaseProcess:
        """A sink in a process of its own, started."""
        process = multiprocessing.get_context("spawn").Process(
            target=sink_process, args=(self.url, self.bootstrap, self.settings), daemon=True
        )
        process.start()
        return process


def is_waiting(folder: Path, word: str) -> bool:
    report = status.read(folder, "sink")
    return report is not None and report.state == "waiting" and word in report.reason


def is_ready(folder: Path) -> bool:
    report = status.read(folder, "sink")
    return report is not None and report.state == "ready"
