"""How full the topics are that nobody empties: dead letters and the parking lot (design, Names).

They are kept without limit, so their size is an alarm: many letters mean that something is wrong for many
customers, or that nobody looks; large ones fill the brokers' disks. Below streams and sinks, so that either
can tell.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from kafka_access import ANSWER_S, headers_of, kafka_client, patiently
from schemas.topic_names import DEAD, GRAVES_GROUP, PARKING
from settings import RajadaError, Settings

GRAVES: Final = (DEAD, PARKING)
SAMPLE: Final = 100
"""Letters of a topic whose bytes are counted, the newest; the rest is taken to be like them."""
SAMPLE_S: Final = 1.0
"""How long a sample may take: what has come until then is counted."""


class GravesUnknown(RajadaError):
    """Kafka does not tell how full the topics are; the message says why."""


@dataclass(frozen=True, slots=True)
class Grave:
    """One of the topics as it is now, by offsets: aborted records count, deleted ones don't."""

    topic_id: str
    """Kafka's."""
    bounds: Mapping[int, tuple[int, int]]
    """Partition → its first offset, and the one after its last."""
    letter_bytes: int = 0
    """Of one letter, about: the mean of the newest, before any compression."""

    @property
    def letters(self) -> int:
        """All that it holds."""
        return sum(end - start for start, end in self.bounds.values())

    @property
    def bytes(self) -> int:
        """All that it holds, about."""
        return self.letters * self.letter_bytes


def graves(bootstrap: str, settings: Settings, answer_s: float = ANSWER_S) -> dict[str, Grave]:
    """Topic (name without prefix) → how full it is; those that don't exist are left out.

    Raises GravesUnknown: no answer within `answer_s`, or one that is no answer.
    """
    admin = AdminClient({**kafka_client(bootstrap), "log_level": 2})
    found: dict[str, Grave] = {}
    try:
        with closing(_reader(bootstrap, settings)) as reader:
            for name in GRAVES:
                grave = _grave(admin, reader, settings.topic(name), answer_s)
                if grave is not None:
                    found[name] = grave
    except (KafkaException, TimeoutError) as error:
        what = error.args[0].str() if isinstance(error, KafkaException) else "no answer"
        raise GravesUnknown(
            f"Kafka at {bootstrap} does not say how many dead letters there are: {what}"
        ) from error
    return found


def overfull(found: Mapping[str, Grave], settings: Settings) -> dict[str, Grave]:
    """Of those, the topics that hold more than `dead_alarm_records`, or more bytes than `dead_alarm_mb`."""
    return {
        name: grave
        for name, grave in found.items()
        if grave.letters > settings.dead_alarm_records or grave.bytes > settings.dead_alarm_mb << 20
    }


def _reader(bootstrap: str, settings: Settings) -> Consumer:
    return Consumer(
        {
            **kafka_client(bootstrap),
            "group.id": settings.topic(GRAVES_GROUP),  # asked for by the client, never joined
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )


def _grave(admin: AdminClient, reader: Consumer, topic: str, answer_s: float) -> Grave | None:
    asked = TopicCollection([topic])
    try:
        described = patiently(
            lambda: admin.describe_topics(asked, request_timeout=answer_s)[topic].result(answer_s + 1),
            answer_s,
        )
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise
    bounds = {
        one.id: _bounds(reader, TopicPartition(topic, one.id), answer_s) for one in described.partitions
    }
    return Grave(str(described.topic_id), bounds, _mean_bytes(reader, topic, bounds))


def _bounds(reader: Consumer, where: TopicPartition, answer_s: float) -> tuple[int, int]:
    start, end = patiently(lambda: reader.get_watermark_offsets(where, answer_s), answer_s)
    return start, end


def _mean_bytes(reader: Consumer, topic: str, bounds: Mapping[int, tuple[int, int]]) -> int:
    """Of the newest letters; 0 = there is none that could be read."""
    held = {partition: both for partition, both in bounds.items() if both[0] < both[1]}
    if not held:
        return 0
    each = max(1, SAMPLE // len(held))
    reader.assign([TopicPartition(topic, one, max(start, end - each)) for one, (start, end) in held.items()])
    sizes: list[int] = []
    left, deadline = set(held), time.monotonic() + SAMPLE_S
    while left and time.monotonic() < deadline:
        for message in reader.consume(SAMPLE, 0.1):
            error = message.error()
            if error is None:
                sizes.append(_size(message))
            elif error.code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition() or 0)
    reader.unassign()
    return sum(sizes) // len(sizes) if sizes else 0


def _size(message: Message) -> int:
    headers = sum(len(name) + len(value or b"") for name, value in headers_of(message) or ())
    return len(message.key() or b"") + len(message.value() or b"") + headers
