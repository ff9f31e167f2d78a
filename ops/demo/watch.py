"""Follows what comes out while it comes: outcomes and dead letters in Kafka, job rows in Postgres.

Each watcher is a loop for a thread of its own and tells the board what it sees, nothing else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka import Message as Record

from db.pool import conninfo_for
from kafka_access import headers_of, kafka_client
from ops.demo.fates import moved
from ops.demo.happenings import Buried, Decided, Happening, JobBuried, RowSeen
from schemas.codec import decode_outcome
from schemas.records import Outcome
from settings import Settings
from streams import topics

READ_EVERY_S: Final = 0.005
"""How often the job rows are read, and so the error of a latency."""
_POLL_S: Final = 0.1
_STAGES: Final = frozenset({"collect", "decide"})
_ROWS: Final = """
SELECT id::text, ARRAY(SELECT jsonb_array_elements_text(payload -> 'event_ids'))
FROM job_queue WHERE organization_id = ANY (%s::uuid[]) AND NOT id = ANY (%s::uuid[])
"""

Tell = Callable[[Happening], None]


class Topics:
    """The ends of the outcomes and of the dead letters, from the moment this is made."""

    def __init__(self, bootstrap: str, settings: Settings) -> None:
        self._outcomes = settings.topic(topics.OUTCOMES)
        self._dead = settings.topic(topics.DEAD)
        self._source, self._jobs = settings.topic(topics.SOURCE), settings.topic(topics.JOBS)
        self._consumer = Consumer(
            {
                **kafka_client(bootstrap),
                "group.id": f"rajada-demo-{uuid4()}",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 20,
            }
        )
        known = self._consumer.list_topics(timeout=10).topics
        ends = []
        for name in (self._outcomes, self._dead):
            for number in known[name].partitions:
                _, end = self._consumer.get_watermark_offsets(TopicPartition(name, number), 10)
                ends.append(TopicPartition(name, number, end))
        self._consumer.assign(ends)

    def follow(self, tell: Tell, stop: threading.Event) -> None:
        """Tell every outcome and dead letter until `stop`."""
        while not stop.is_set():
            record = self._consumer.poll(_POLL_S)
            if record is None or record.error() is not None:
                continue
            seen = self._buried(record) if record.topic() == self._dead else _told(record)
            if seen is not None:
                tell(seen)
        self._consumer.close()

    def _buried(self, record: Record) -> Buried | JobBuried | None:
        headers = {name: _text(value) for name, value in headers_of(record) or []}
        topic, at = headers.get("kafka_dlt-original-topic"), time.monotonic()
        if topic == self._jobs and "job-id" in headers:
            return JobBuried(at, headers.get("reason", "?"), headers["job-id"])
        if topic != self._source:
            return None
        origin = (
            int(headers.get("kafka_dlt-original-partition", "-1")),
            int(headers.get("kafka_dlt-original-offset", "-1")),
        )
        return Buried(at, headers.get("reason", "?"), origin, headers.get("event-id"))


class Rows:
    """The job rows of some organizations."""

    def __init__(self, url: str, organization_ids: list[str]) -> None:
        self._connection = psycopg.connect(conninfo_for(url, "demo-watch"), autocommit=True)
        self._organization_ids = organization_ids

    def follow(self, tell: Tell, stop: threading.Event) -> None:
        """Tell every new row until `stop`. Raises psycopg.Error."""
        seen: list[str] = []
        with self._connection as connection:
            while not stop.wait(READ_EVERY_S):
                rows = connection.execute(_ROWS, [self._organization_ids, seen]).fetchall()
                at = time.monotonic()
                for job_id, event_ids in rows:
                    seen.append(job_id)
                    tell(RowSeen(at, job_id, tuple(event_ids)))


def _told(record: Record) -> Happening | None:
    """What an outcome says of a window, or of a job."""
    value, at = record.value(), time.monotonic()
    outcome = decode_outcome(value if isinstance(value, bytes) else b"")
    return _decided(outcome, at) or moved(outcome, at, time.time_ns() // 1_000_000)


def _decided(outcome: Outcome, at: float) -> Decided | None:
    if outcome.stage not in _STAGES or outcome.outcome == "deduplicated":
        return None
    return Decided(
        at=at,
        event_ids=tuple(event.event_id for event in outcome.events),
        status=outcome.status,
        outcome=outcome.outcome,
        job_id=outcome.job_id,
        attempts=max((event.attempts for event in outcome.events), default=0),
        last_error=outcome.last_error,
    )


def _text(value: str | bytes | None) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value or ""
