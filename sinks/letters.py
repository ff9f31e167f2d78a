"""The sink's dead letters: outcomes that can't be read or written, with their bytes as they came."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_access import kafka_client
from schemas import alert_texts
from schemas.dead import Cause, Header, dead_headers, fitting, resting_place
from schemas.delayed import WAITS_IN
from schemas.topic_names import DEAD, PARKING
from settings import Language, Settings
from sinks.batch import Record
from sinks.failures import Unavailable
from sinks.raised import trouble
from sinks.rows import TroubleRow

log = structlog.get_logger(__name__)

DELIVERY_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Dead:
    """One record to bury: `reason` is a name, `message` a text without personal data."""

    record: Record
    reason: str
    message: str


def dead_outcome(dead: Dead, language: Language) -> TroubleRow:
    """What the platform is told of it: the CRM's tables don't show what came of something.

    It lasts until a person has resolved its alert: nobody can tell what a dead outcome was about.
    """
    record = dead.record
    place = f"{record.topic} [{record.partition}] offset {record.offset}"
    alert = alert_texts.outcome_dead(dead.reason, place, dead.message, language)
    return trouble(alert, None, "condition", f"outcome_dead@{place}", record.timestamp)


@dataclass(frozen=True, slots=True)
class Later:
    """One record that waits for a sink that knows its schema; `headers` as it comes back with."""

    record: Record
    headers: Sequence[Header]


_Written = tuple[str, int, bytes | None, bytes | None, Sequence[Header]]
"""Topic without prefix, partition (-1: by the key), key, value, headers."""


class Graveyard:
    """Writes dead letters, and what waits for an upgrade, until they are durable. Connects with the first."""

    def __init__(self, bootstrap: str, settings: Settings) -> None:
        self._bootstrap = bootstrap
        self._topics = {topic: settings.topic(topic) for topic in (DEAD, PARKING, WAITS_IN)}
        self._producer: Producer | None = None

    def bury(self, dead: Sequence[Dead]) -> None:
        """Returns when all are durable; Unavailable when they are not: bury them again, twice is harmless."""
        now_ms = time.time_ns() // 1_000_000
        letters: list[_Written] = []
        for one in dead:
            headers = dead_headers(one.record, Cause("sink", one.reason, one.message), now_ms)
            letter = fitting(one.record.key, one.record.value, headers)
            letters.append((resting_place(one.record.headers), -1, *letter))
            log.error(
                "outcome_dead", reason=one.reason, partition=one.record.partition, offset=one.record.offset
            )
        self._write("dead letters", letters)

    def postpone(self, later: Sequence[Later]) -> None:
        """Returns when all are durable in the delay topics; Unavailable when they are not."""
        waiting: list[_Written] = [
            (WAITS_IN, one.record.partition, one.record.key, one.record.value, one.headers) for one in later
        ]
        self._write("records of an unknown schema", waiting)
        for one in later:
            log.warning("unknown_schema", partition=one.record.partition, offset=one.record.offset)

    def _write(self, what: str, records: Sequence[_Written]) -> None:
        if not records:
            return
        producer = self._connected()
        failed: list[str] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error.name())

        for topic, partition, key, value, headers in records:
            written: list[tuple[str, str | bytes | None]] = [*headers]
            try:
                producer.produce(
                    self._topics[topic],
                    key=key,
                    value=value,
                    partition=partition,
                    headers=written,
                    on_delivery=told,
                )
            except (BufferError, KafkaException) as error:
                failed.append(type(error).__name__)
        waiting = producer.flush(DELIVERY_S + 1)
        if failed or waiting:
            told_why = ", ".join(failed[:3]) or "no answer"
            topics = ", ".join(sorted({self._topics[topic] for topic, *_ in records}))
            raise Unavailable(f"{what} can't be written to {topics} ({told_why})")

    def _connected(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                {
                    **kafka_client(self._bootstrap),
                    "enable.idempotence": True,
                    "partitioner": "murmur2_random",
                    "message.timeout.ms": int(DELIVERY_S * 1000),
                    # the topic's own limit decides, which lies above the source's
                    "message.max.bytes": 64 * 1024 * 1024,
                }
            )
        return self._producer
