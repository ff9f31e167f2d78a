"""What topics hold, for tests."""

from __future__ import annotations

import time
from uuid import uuid4

from confluent_kafka import Consumer, Message, Producer, TopicPartition


def records_of(kafka: str, topic: str) -> int:
    """How many records a topic holds."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": str(uuid4())})
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    marks = [consumer.get_watermark_offsets(TopicPartition(topic, one), 10) for one in partitions]
    consumer.close()
    return sum(end - start for start, end in marks)


def read_all(kafka: str, topic: str, count: int) -> list[Message]:
    """The first `count` records of a topic, in the order of each partition."""
    consumer = Consumer({"bootstrap.servers": kafka, "group.id": str(uuid4()), "enable.auto.commit": False})
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    found: list[Message] = []
    deadline = time.monotonic() + 30
    while len(found) < count and time.monotonic() < deadline:
        found += [one for one in consumer.consume(count, 1) if not one.error()]
    consumer.close()
    return found


def murmur2_producer(kafka: str) -> Producer:
    """A producer that partitions as every one of ours does."""
    return Producer({"bootstrap.servers": kafka, "partitioner": "murmur2_random", "log_level": 2})
