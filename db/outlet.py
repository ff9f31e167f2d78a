"""The relay's way into Kafka: an idempotent producer, dead letters for records that are too large.

Every record is acknowledged exactly once by a call-back, whether it went to its topic or to the dead
letters; whatever else goes wrong ends in `SendFailed`, after which a new outlet starts again from what
was confirmed.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, cast

import orjson
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from db.publisher import EVENT_TYPES, TOO_LARGE, EventRecord
from db.relay_counting import RelayCounts
from kafka_access import kafka_client
from schemas.dead import Cause, Header, dead_headers
from schemas.topic_names import DEAD, OUTCOMES
from settings import RajadaError, Settings
from telemetry import pulse
from telemetry.trace_ids import TRACEPARENT
from telemetry.tracing import traces

log = structlog.get_logger(__name__)

Acknowledge = Callable[[], None]
Obituary = Callable[[EventRecord, int], bytes]
"""Makes, of a record that can't be published and the time of its death (ms), the outcome that says so."""

_RECORD_OVERHEAD: Final = 512
"""Bytes of a record batch and of a record's own framing, generously."""

_BATCH_BYTES: Final = 1_000_000
_QUEUE_KBYTES: Final = 65_536
_KEPT_OF_A_ROW: Final = ("id", "organization_id", "event_type", "status", "partition_key", "created_at")

_Headers = list[tuple[str, str | bytes | None]]


class KafkaNotReady(RajadaError):
    """Kafka can't be used now: it doesn't answer, or topics are missing; the message says which."""


class SendFailed(RajadaError):
    """A record was refused for good; everything that is not acknowledged must be sent again."""


class Outlet:
    """A producer for the source topics and the dead letters of one installation.

    With an `obituary` each dead letter comes with an outcome, so that the event's row says `dead` and an
    alert is opened. Not for several threads. Raises KafkaNotReady on construction.
    """

    def __init__(
        self,
        bootstrap: str,
        settings: Settings,
        *,
        obituary: Obituary | None = None,
        timeout_s: float = 5.0,
        counts: RelayCounts | None = None,
    ) -> None:
        self._topics = {event_type: settings.topic(event_type) for event_type in EVENT_TYPES}
        self._dead = settings.topic(DEAD)
        self._outcomes = settings.topic(OUTCOMES)
        self._obituary = obituary
        self._counts = counts if counts is not None else RelayCounts()
        needed = [*self._topics.values(), self._dead, *([self._outcomes] if obituary else [])]
        limits = _size_limits(bootstrap, needed, timeout_s)
        self._largest = {name: limits[topic] - _RECORD_OVERHEAD for name, topic in self._topics.items()}
        self._largest_dead = limits[self._dead] - _RECORD_OVERHEAD
        self._failure: KafkaError | None = None
        self._acknowledged = 0
        self._producer = Producer(
            {
                **kafka_client(bootstrap),
                "client.id": "rajada-relay",
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 1,
                # As Java's default: the key's partition is the same whoever publishes.
                "partitioner": "murmur2_random",
                # A record waits as long as Kafka is away; Postgres keeps what comes after it.
                "message.timeout.ms": 0,
                # The topics' own limits decide, not the client's; and they are limits of a whole batch.
                "message.max.bytes": max(limits.values()) + 65_536,
                "batch.size": min(_BATCH_BYTES, *self._largest.values(), self._largest_dead),
                "queue.buffering.max.kbytes": _QUEUE_KBYTES,
            },
            logger=logging.getLogger(f"{__name__}.librdkafka"),
        )

    def send(self, record: EventRecord, acknowledge: Acknowledge) -> bool:
        """Hands one record over; False when the queue is full: `pump` and try again.

        Args:
            record: what `db.publisher` made of a row.
            acknowledge: called from within `pump` once the record is durable.
        """
        topic = self._topics[record.event_type]
        if traces().on:
            acknowledge = _traced(record, acknowledge)
        if _size(record.key, record.value, record.headers) > self._largest[record.event_type]:
            taken = self._bury(topic, record, acknowledge)
        else:
            taken = self._produce(topic, record.key, record.value, record.headers, acknowledge)
        self._counts.published += taken
        return taken

    def pump(self, timeout_s: float = 0.0) -> int:
        """Serves the call-backs and returns how many records were acknowledged meanwhile.

        Raises:
            SendFailed: a record was refused for good.
        """
        pulse.beat()
        before = self._acknowledged
        self._producer.poll(timeout_s)  # what it returns counts its log lines too
        self._counts.acknowledged += self._acknowledged - before
        if self._failure is not None:
            self._counts.failures += 1
            raise SendFailed(f"Kafka refused a record: {self._failure.str()}")
        return self._acknowledged - before

    def __len__(self) -> int:
        """Records that are not acknowledged yet."""
        return len(self._producer)

    def close(self) -> None:
        """Drops what is not acknowledged: it comes again from Postgres."""
        self._producer.purge()
        self._producer.flush(1.0)

    def _produce(
        self, topic: str, key: bytes, value: bytes, headers: Sequence[Header], acknowledge: Acknowledge
    ) -> bool:
        try:
            self._producer.produce(
                topic,
                value,
                key,
                headers=cast("_Headers", headers),  # read only: what it holds may be narrower
                on_delivery=partial(self._delivered, acknowledge),
            )
        except BufferError:
            return False
        except KafkaException as error:
            self._failure = error.args[0]
            self._counts.failures += 1
            raise SendFailed(f"Kafka refused a record: {error.args[0].str()}") from error
        return True

    def _delivered(self, acknowledge: Acknowledge, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self._acknowledged += 1
            acknowledge()
        else:
            # Also when a topic's size limit was lowered meanwhile: the next outlet asks for it anew.
            self._failure = error

    def _bury(self, topic: str, record: EventRecord, acknowledge: Acknowledge) -> bool:
        size, now_ms, value = len(record.value), int(time.time() * 1000), record.value
        cause = Cause(
            "publish", TOO_LARGE, f"{size} bytes, above the topic's max.message.bytes", record.event_id
        )
        headers = dead_headers(_Unsent(topic, now_ms, record.headers), cause, now_ms)
        if _size(record.key, value, headers) > self._largest_dead:
            # Too large even for the dead letters: the row without its content; the row itself has it all.
            value = _without_content(value)
            headers.append(("truncated", b"1"))
        outcome = None if self._obituary is None else self._obituary(record, now_ms)
        acknowledge_one = acknowledge if outcome is None else _after(2, acknowledge)
        if not self._produce(self._dead, record.key, value, headers, acknowledge_one):
            return False
        self._counts.too_large += 1
        if outcome is not None:
            while not self._produce(self._outcomes, record.key, outcome, [], acknowledge_one):
                self.pump(0.1)
        log.error(
            "event_too_large", event_id=record.event_id, topic=topic, bytes=size, dead_letter=self._dead
        )
        return True


@dataclass(frozen=True, slots=True)
class _Unsent:
    """A record that never was in its topic: it has no partition and no offset."""

    topic: str
    timestamp: int
    headers: Sequence[Header]
    partition: int = -1
    offset: int = -1


def _traced(record: EventRecord, acknowledge: Acknowledge) -> Acknowledge:
    """Gives a record its `traceparent`, once, and tells of it when it is acknowledged."""
    headers = dict(record.headers)
    if TRACEPARENT not in headers:
        stamp = traces().stamp(record.event_id) or []
        record.headers.extend((name, value) for name, value in stamp if value is not None)
    committed = headers.get("cdc_source_ts_ms")

    def one() -> None:
        acknowledge()
        committed_ms = int(committed) if committed else time.time_ns() // 1_000_000
        traces().published(record.event_id, record.event_type, committed_ms)

    return one


def _after(count: int, acknowledge: Acknowledge) -> Acknowledge:
    """Passes on the last of `count` acknowledgements."""
    left = count

    def one() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            acknowledge()

    return one


def _size(key: bytes, value: bytes, headers: Sequence[Header]) -> int:
    """Bytes of a record, its framing apart."""
    return len(key) + len(value) + sum(len(name) + len(content or b"") + 10 for name, content in headers)


def _without_content(value: bytes) -> bytes:
    row = orjson.loads(value)
    return orjson.dumps({name: row[name] for name in _KEPT_OF_A_ROW if name in row})


def _size_limits(bootstrap: str, topics: list[str], timeout_s: float) -> dict[str, int]:
    """max.message.bytes of each topic; KafkaNotReady when one is missing or nobody answers."""
    admin = AdminClient(
        # What it can't do is raised here; the client's own lines would only repeat it.
        {**kafka_client(bootstrap), "socket.timeout.ms": int(timeout_s * 1000), "log_level": 2}
    )
    try:
        known = admin.list_topics(timeout=timeout_s).topics
        missing = [topic for topic in topics if topic not in known]
        if missing:
            raise KafkaNotReady(f"no topic {', '.join(missing)}: run `rajada topics` or start a worker")
        resources = [ConfigResource(ResourceType.TOPIC, topic) for topic in topics]
        answers = admin.describe_configs(resources, request_timeout=timeout_s)
        return {
            resource.name: int(future.result(timeout_s)["max.message.bytes"].value)
            for resource, future in answers.items()
        }
    except KafkaException as error:
        raise KafkaNotReady(f"Kafka at {bootstrap} does not answer: {error.args[0].str()}") from error
