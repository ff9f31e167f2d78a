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
from schemas.dead import Cause, dead_headers, resting_place
from schemas.topic_names import DEAD, PARKING
from settings import Language
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


class Graveyard:
    """Writes dead letters and waits until they are durable. Connects with the first one."""

    def __init__(self, bootstrap: str, *, topic: str, parking: str) -> None:
        self._bootstrap = bootstrap
        self._topics = {DEAD: topic, PARKING: parking}
        self._producer: Producer | None = None

    def bury(self, dead: Sequence[Dead]) -> None:
        """Returns when all are durable; Unavailable when they are not: bury them again, twice is harmless."""
        producer = self._connected()
        failed: list[str] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error.name())

        now_ms = time.time_ns() // 1_000_000
        for one in dead:
            record = one.record
            headers: list[tuple[str, str | bytes | None]] = [
                *dead_headers(record, Cause("sink", one.reason, one.message), now_ms)
            ]
            try:
                producer.produce(
                    self._topics[resting_place(record.headers)],
                    key=record.key,
                    value=record.value,
                    headers=headers,
                    on_delivery=told,
                )
            except (BufferError, KafkaException) as error:
                failed.append(type(error).__name__)
            log.error("outcome_dead", reason=one.reason, partition=record.partition, offset=record.offset)
        waiting = producer.flush(DELIVERY_S + 1)
        if failed or waiting:
            told_why = ", ".join(failed[:3]) or "no answer"
            raise Unavailable(f"dead letters can't be written to {self._topics[DEAD]} ({told_why})")

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
