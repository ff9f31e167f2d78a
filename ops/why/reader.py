"""Reads topics without taking part in anything: no group is joined, nothing is committed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

import kafka_access
from kafka_access import ANSWER_S, Answer, kafka_client, patiently
from ops.errors import Unreachable
from schemas.topic_names import WHY_GROUP

Headers = list[tuple[str, bytes | None]]


class TopicReader:
    """A context with one consumer. Every method may raise Unreachable."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._consumer = Consumer(
            {
                **kafka_client(bootstrap),
                "group.id": WHY_GROUP,  # asked for by the client, never joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "log_level": 2,
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def partitions(self, topic: str) -> Sequence[int]:
        """The partitions of a topic; none when there is no such topic."""
        try:
            found = self._consumer.list_topics(topic, ANSWER_S).topics[topic]
        except KafkaException as error:
            raise self._away(error.args[0]) from error
        return sorted(found.partitions) if found.error is None else []

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        """The first offset of a partition, and the one after its last."""
        where = TopicPartition(topic, partition)
        start, end = self._patiently(lambda: self._consumer.get_watermark_offsets(where, ANSWER_S))
        return start, end

    def ends(self, topic: str) -> dict[int, int]:
        """By partition the offset after its last record."""
        return {partition: self.bounds(topic, partition)[1] for partition in self.partitions(topic)}

    def since(self, topic: str, at_ms: int) -> dict[int, int]:
        """By partition the first offset written at or after a moment; partitions without one are left out."""
        asked = [TopicPartition(topic, partition, at_ms) for partition in self.partitions(topic)]
        found = self._patiently(lambda: self._consumer.offsets_for_times(asked, ANSWER_S))
        return {one.partition: one.offset for one in found if one.offset >= 0}

    def read(
        self,
        topic: str,
        ranges: Mapping[int, tuple[int, int]],
        deadline: float = math.inf,
        stall_s: float = math.inf,
    ) -> Iterator[Message]:
        """The records of [start, end) of each partition, in order.

        Ends at the monotonic deadline, though not all was read. Unreachable when nothing comes for `stall_s`.
        """
        left = {partition: end for partition, (start, end) in ranges.items() if start < end}
        if not left:
            return
        self._consumer.assign([TopicPartition(topic, one, ranges[one][0]) for one in left])
        came = time.monotonic()
        while left and time.monotonic() < deadline:
            messages = self._consumer.consume(1_000, 0.2)
            if messages:
                came = time.monotonic()
            elif time.monotonic() - came > stall_s:
                raise Unreachable(f"Kafka at {self._bootstrap} gives no record for {stall_s:.0f} s")
            for message in messages:
                partition, error = message.partition() or 0, message.error()
                if error is not None:
                    if error.code() != KafkaError._PARTITION_EOF:
                        raise self._away(error)
                    left.pop(partition, None)
                elif partition in left:
                    # past the end when the records at the end are gone: compacted, or another's transaction
                    if (message.offset() or 0) < left[partition]:
                        yield message
                    if (message.offset() or 0) >= left[partition] - 1:
                        del left[partition]
        self._consumer.unassign()

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return patiently(ask)
        except KafkaException as error:
            raise self._away(error.args[0]) from error

    def _away(self, error: KafkaError) -> Unreachable:
        return Unreachable(f"Kafka at {self._bootstrap} does not answer: {error.str()}")


def headers_of(message: Message) -> Headers:
    """The headers in their order; none where their names are no text."""
    return kafka_access.headers_of(message) or []
