"""Header names that are no text: the client's answer to them has holes, and nobody falls into one."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import closing

import pytest
from confluent_kafka import Consumer, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kafka_access import headers_of
from tests import raw_names

GOOD, BAD = b"good", b"\xff\xfe"
NAMES = [names for count in (1, 2, 3) for names in itertools.product((GOOD, BAD), repeat=count)]
OFTEN = 40
"""Python calls differently what it has called often."""


@pytest.fixture
def topic(kafka: str, prefix: str) -> Iterator[str]:
    """A topic with a record for each of NAMES."""
    name = f"{prefix}names"
    admin = AdminClient({"bootstrap.servers": kafka})
    admin.create_topics([NewTopic(name, 1, 1)])[name].result(30)

    async def fill() -> None:
        for names in NAMES:
            await raw_names.produce(kafka, name, b"key", b"value", *names, partition=0)

    asyncio.run(fill())
    yield name
    admin.delete_topics([name])[name].result(30)


@pytest.mark.long
def test_headers_are_whole_or_none_however_often_they_are_asked_for(kafka: str, topic: str) -> None:
    with closing(Consumer({"bootstrap.servers": kafka, "group.id": topic})) as consumer:
        for _ in range(OFTEN):
            consumer.assign([TopicPartition(topic, 0, 0)])
            for names, message in zip(NAMES, _read(consumer, len(NAMES)), strict=True):
                whole = None if BAD in names else [(name.decode(), b"value") for name in names]
                assert [headers_of(message) for _ in range(3)] == [whole] * 3


def _read(consumer: Consumer, count: int) -> list[Message]:
    messages: list[Message] = []
    while len(messages) < count:
        messages += [one for one in consumer.consume(count, 5.0) if one.error() is None]
    return messages
