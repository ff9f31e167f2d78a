"""A place to test commands about dead letters: topics of its own, letters in them, and what came of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, Message, Producer, TopicPartition

from schemas.codec import encode_job
from schemas.dead import Cause, Header, dead_headers
from schemas.records import EventRef, Job
from schemas.topic_names import DEAD, JOBS, SOURCE
from settings import Settings
from tests.command_line import run_rajada

NOT_JSON = Cause("collect", "not_json", "broken")


@dataclass(frozen=True)
class Died:
    """A record that is about to die."""

    value: bytes | None
    key: bytes | None = None
    topic: str = SOURCE
    cause: Cause = NOT_JSON
    headers: Sequence[Header] = ()
    partition: int = 0
    offset: int = 7
    timestamp: int = 1_790_000_000_000


@dataclass
class Graveyard:
    """Writes letters, runs commands, reads topics."""

    url: str
    bootstrap: str
    settings: Settings
    home: Path
    organization: str = field(default_factory=lambda: str(uuid4()))

    def __post_init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "partitioner": "murmur2_random"})

    def event(self, **changes: object) -> tuple[str, Died]:
        """The id of an event and its record, dead for lack of a contact."""
        ids = ("conversation_id", "contact_id", "channel_session_id", "inbound_message_id")
        payload = {name: str(uuid4()) for name in ids}
        row = {
            "id": str(uuid4()),
            "organization_id": self.organization,
            "event_type": "ai_agent.dispatch_requested",
            "payload": json.dumps(payload),
            "attempts": 0,
            "status": "pending",
            **changes,
        }
        key = f"{self.organization}:{payload['contact_id']}".encode()
        cause = Cause("decide", "contact_missing", "no such contact", event_id=str(row["id"]), attempt=5)
        headers = [("cdc_source_ts_ms", b"1790000000000"), ("event_type", str(row["event_type"]).encode())]
        return str(row["id"]), Died(json.dumps(row).encode(), key, cause=cause, headers=headers)

    def job(self) -> tuple[Job, Died]:
        """A job and its record, dead after five attempts."""
        event, contact = str(uuid4()), str(uuid4())
        job = Job(
            id=str(uuid4()),
            organization_id=self.organization,
            contact_id=contact,
            kind="inbound_turn",
            source_event_id=event,
            seq=2,
            created_at_ms=1,
            run_after_ms=1,
            payload="{}",
            events=(EventRef(event),),
        )
        key = f"{self.organization}:{contact}".encode()
        return job, Died(
            encode_job(job), key, JOBS, Cause("execute", "http_500", "no answer", attempt=5, job_id=job.id)
        )

    def died(self, value: bytes | None) -> Died:
        """A record of any bytes."""
        return Died(value)

    def publish(self, record: Died, topic: str) -> None:
        """Write a record to a topic as its producer would, without waiting for it."""
        self._produce(topic, record, list(record.headers))

    def bury(self, died: Iterable[Died], topic: str = DEAD) -> None:
        """Write letters."""
        for one in died:
            self.bury_soon(one, topic)
        assert self.producer.flush(60) == 0

    def bury_soon(self, died: Died, topic: str = DEAD) -> None:
        """Write one, without waiting for it."""
        origin = _Origin(
            self.settings.topic(died.topic), died.partition, died.offset, died.timestamp, died.headers
        )
        self._produce(topic, died, dead_headers(origin, died.cause, time.time_ns() // 1_000_000))

    def _produce(self, topic: str, died: Died, headers: list[Header]) -> None:
        while True:
            try:
                name = self.settings.topic(topic)
                self.producer.produce(name, key=died.key, value=died.value, headers=headers)  # type: ignore[arg-type]
                self.producer.poll(0)
                return
            except BufferError:
                self.producer.poll(0.2)

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-m", "ops.cli", *arguments]

    @property
    def environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "KAFKA_BOOTSTRAP_SERVERS": self.bootstrap,
            "DATABASE_URL": self.url,
            "RAJADA_TOPIC_PREFIX": self.settings.topic_prefix,
            "RAJADA_HOME": str(self.home),
            "COLUMNS": "200",
        }

    def run(
        self, *arguments: str, answer: str | bytes = "", **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command of `rajada`."""
        given = answer.encode() if isinstance(answer, str) else answer
        named = {**self.environment, **environment}
        return run_rajada(*arguments, env=named, given=given, timeout=120)

    def json(self, *arguments: str) -> Any:
        """What a command tells programs; it must go well."""
        done = self.run(*arguments, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def records(self, topic: str) -> list[Message]:
        """All committed records of a topic, partition by partition."""
        name = self.settings.topic(topic)
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": str(uuid4()),
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "log_level": 2,
            }
        )
        partitions = consumer.list_topics(name, 10).topics[name].partitions
        consumer.assign([TopicPartition(name, number, 0) for number in partitions])
        found: list[Message] = []
        ended: set[int | None] = set()
        deadline = time.monotonic() + 30
        while len(ended) < len(partitions):
            assert time.monotonic() < deadline
            for record in consumer.consume(1_000, 0.1):
                if record.error():
                    ended.add(record.partition())
                else:
                    found.append(record)
        consumer.close()
        return sorted(found, key=lambda one: (one.partition() or 0, one.offset() or 0))

    def execute(self, statement: str, *values: object) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(statement, values)  # type: ignore[arg-type]  # plain text is fine here
            return cursor.fetchall() if cursor.description else []

    def closed(self) -> dict[str, int]:
        """How → how many letters are closed so."""
        rows = self.execute("SELECT how, count(*) FROM rajada.closed_letters GROUP BY how")
        return {str(how): int(count) for how, count in rows}


@dataclass(frozen=True)
class _Origin:
    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: Sequence[Header]


def headers(record: Message) -> dict[str, bytes]:
    """A record's headers."""
    return dict(record.headers() or [])  # type: ignore[arg-type]  # a list of pairs


def place(record: Message) -> str:
    """A letter's place."""
    return f"dead/{record.partition()}/{record.offset()}"
