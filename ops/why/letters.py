"""Dead letters of some events and jobs: a bounded look through `dispatch.dead` and `dispatch.parking`."""

from __future__ import annotations

import time
from collections.abc import Container
from typing import Final

from confluent_kafka import Message

from ops.why.evidence import Letter
from ops.why.reader import TopicReader, headers_of
from settings import Settings
from streams import topics

MOST: Final = 50_000
"""Records that are looked at in each topic, the newest."""
LONGEST_S: Final = 10.0


def letters(
    reader: TopicReader, settings: Settings, ids: Container[str], since_ms: int | None
) -> tuple[list[Letter], list[str]]:
    """The dead letters that name one of these ids, oldest first, and what was looked through.

    Args:
        reader: of the topics. Raises Unreachable.
        settings: the topics' prefix.
        ids: of events and jobs.
        since_ms: nothing died before this, Unix ms; None: unknown.
    """
    found: list[Letter] = []
    looked: list[str] = []
    for name in (topics.DEAD, topics.PARKING):
        topic = settings.topic(name)
        begin = (
            reader.since(topic, since_ms)
            if since_ms is not None
            else dict.fromkeys(reader.partitions(topic), 0)
        )
        each = MOST // max(1, len(begin))
        ranges, skipped = {}, 0
        for partition, offset in begin.items():
            start, end = reader.bounds(topic, partition)
            first = max(start, offset, end - each)
            skipped += first - max(start, offset)
            ranges[partition] = (first, end)
        deadline = time.monotonic() + LONGEST_S
        for message in reader.read(topic, ranges, deadline):
            if _names(message, ids):
                found.append(_letter(message))
        late = time.monotonic() >= deadline
        looked.append(
            f"Kafka: {topic}"
            + (f" (not its oldest {skipped:,} records)" if skipped else "")
            + (" (not all of it, it takes too long)" if late else "")
        )
    return sorted(found, key=lambda letter: letter.at_ms), looked


def _names(message: Message, ids: Container[str]) -> bool:
    return any(
        name in ("event-id", "event_id", "job-id")
        and value is not None
        and value.decode(errors="replace") in ids
        for name, value in headers_of(message)
    )


def _letter(message: Message) -> Letter:
    told = {name: (value or b"").decode(errors="replace") for name, value in headers_of(message)}
    attempt = told.get("attempt", "")
    return Letter(
        topic=message.topic() or "",
        partition=message.partition() or 0,
        offset=message.offset() or 0,
        at_ms=message.timestamp()[1],
        reason=told.get("reason", "unknown"),
        stage=told.get("stage", "unknown"),
        message=told.get("kafka_dlt-exception-message", ""),
        event_id=told.get("event-id") or told.get("event_id"),
        attempt=int(attempt) if attempt.isdigit() else None,
    )
