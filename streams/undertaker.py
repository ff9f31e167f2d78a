"""Fetches the original records of events that die, so that dead letters keep the bytes (spec/jobs.md).

A window knows (partition, offset) of each event. What retention has taken is rebuilt from the window's
own record and marked `reconstructed: 1`.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Final

import msgspec
import structlog
from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

from kafka_access import headers_of, kafka_client
from schemas.dead import Cause, Header, dead_headers, fitting
from schemas.topic_names import ORIGINALS
from settings import RajadaError
from streams.contact import Window, WindowEvent
from streams.events import COMMIT_TIME, EVENT_TYPE, REPLAY, Event, read_event
from streams.freezing import MAX_ATTEMPTS
from streams.identifiers import key_parts
from streams.ports import Item

log = structlog.get_logger(__name__)

FETCH_S: Final = 30.0
_GONE: Final = frozenset(
    {KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._PARTITION_EOF}
)


class OriginalsUnreadable(RajadaError):
    """Kafka does not give the original records now; the window stays frozen and is sent after a restart."""


@dataclass(frozen=True, slots=True)
class _Original:
    """A record of the source topic; `value` None with `lost` where it is gone."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    headers: list[Header]
    key: bytes | None
    value: bytes | None


class OriginalRecords:
    """Reads single records of the source topic by offset."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic

    async def letters(self, key: bytes, partition: int, window: Window) -> list[Item]:
        """One dead letter for each event of a window that died, in the order of the log."""
        assert window.frozen is not None, "a window is frozen before it is buried"
        found = await asyncio.to_thread(self._read, partition, [member.offset for member in window.events])
        items: list[Item] = []
        for member in window.events:
            cause = Cause(
                "decide",
                window.frozen.outcome,
                window.frozen.last_error or "",
                event_id=member.event_id,
                attempt=min(member.attempts + window.failures, MAX_ATTEMPTS),
            )
            original = found.get(member.offset)
            if original is None or not _is_of(original, member):
                original = self._rebuilt(key, partition, window, member)
            headers = dead_headers(original, cause, window.frozen.decided_ms)
            letter_key, value, headers = fitting(original.key, original.value, headers)
            items.append((letter_key, value, partition, headers))
        return items

    def _read(self, partition: int, offsets: list[int]) -> dict[int, _Original]:
        """The records at these offsets that still exist; blocking, at most FETCH_S seconds each."""
        consumer = Consumer(
            {
                **kafka_client(self._bootstrap),
                "group.id": self._topic + ORIGINALS,  # assigns by hand and never commits
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
            }
        )
        found: dict[int, _Original] = {}
        try:
            for offset in offsets:
                consumer.assign([TopicPartition(self._topic, partition, offset)])
                message = _next(consumer)
                if message is not None and message.offset() == offset:
                    found[offset] = _original(message)
        finally:
            consumer.close()
        return found

    def _rebuilt(self, key: bytes, partition: int, window: Window, member: WindowEvent) -> _Original:
        """What the window knows of an event whose record is gone, in the shape that the publisher gives."""
        log.warning("original_gone", event_id=member.event_id, partition=partition, offset=member.offset)
        organization_id, contact_id = key_parts(key)
        payload = {
            "conversation_id": window.conversation_id,
            "contact_id": contact_id,
            "channel_session_id": member.session_id,
            "inbound_message_id": member.message_id,
        }
        row = {
            "id": member.event_id,
            "organization_id": organization_id,
            "event_type": EVENT_TYPE,
            "payload": msgspec.json.encode(payload).decode(),
            "attempts": member.attempts,
        }
        headers: list[Header] = [
            (COMMIT_TIME, str(member.time_ms).encode()),
            ("reconstructed", b"1"),
        ]
        if member.replay:
            headers.append((REPLAY, str(member.replay).encode()))
        return _Original(
            self._topic, partition, member.offset, member.time_ms, headers, key, msgspec.json.encode(row)
        )


def _is_of(original: _Original, member: WindowEvent) -> bool:
    """Whether the record is the event's: a topic made anew has other records at the same offsets."""
    found = read_event(
        original.value, original.headers, original.timestamp, original.timestamp, original.offset
    )
    return isinstance(found, Event) and found.event_id == member.event_id


def _next(consumer: Consumer) -> Message | None:
    """The next record, or None when nothing is left at that offset.

    Raises OriginalsUnreadable when Kafka does not tell: what may still be there is not rebuilt.
    """
    deadline = time.monotonic() + FETCH_S
    why = "no answer"
    while time.monotonic() < deadline:
        message = consumer.poll(0.5)
        if message is None:
            continue
        error = message.error()
        if error is None:
            return message
        if error.code() in _GONE:
            return None
        why = error.str()
    raise OriginalsUnreadable(
        f"the originals of dead events can't be read from Kafka: {why}; they are tried again"
    )


def _original(message: Message) -> _Original:
    return _Original(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        timestamp=message.timestamp()[1],
        headers=headers_of(message) or [],  # their names may be no text: this client then gives none
        key=message.key(),
        value=message.value(),
    )
