"""How far the readers of our topics are behind, in records and against a limit in seconds.

Kafka knows offsets, not seconds. But one question answers whether a reader is more than N seconds behind:
what is the first record younger than N seconds? If the reader's position lies below it, then the record at
its position, which it has yet to handle, is older. No record has to be read for that, and a quiet partition
is never behind. Timestamps are those of the records (when they were sent); where they are out of order the
question is answered for the records before the first young one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_access import ANSWER_S, Answer, kafka_client, patiently
from settings import RajadaError
from streams.sweep import Position


class LagUnknown(RajadaError):
    """Kafka can't tell how far somebody is; the message says why."""


class Lags:
    """Asks one Kafka. For any thread, one at a time."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        # What it can't do is raised here; the client's own lines would only repeat it.
        self._admin = AdminClient({**kafka_client(bootstrap), "log_level": 2})
        self._groups: dict[str, Consumer] = {}

    def topic_id(self, topic: str) -> str:
        """Kafka's id of a topic; raises LagUnknown when there is none."""
        return self._described(topic)[0]

    def partitions(self, topic: str) -> int:
        """How many partitions a topic has; raises LagUnknown when there is none."""
        return len(self._described(topic)[1])

    def of_group(self, topic: str, group: str, limit_s: float) -> list[Position]:
        """Where a consumer group stands in each partition of a topic. Raises LagUnknown.

        Args:
            topic: full name.
            group: full name.
            limit_s: what counts as behind.
        """
        partitions = self._described(topic)[1]
        asked = [TopicPartition(topic, one) for one in partitions]
        consumer = self._in_place_of(group)
        found = self._patiently(lambda: consumer.committed(asked, ANSWER_S))
        committed = {one.partition: one.offset for one in found if one.error is None and one.offset >= 0}
        return self._positions(topic, partitions, committed, limit_s)

    def of_offsets(self, topic: str, positions: Mapping[int, int], limit_s: float) -> list[Position]:
        """Where a reader that stands at these offsets is, in each partition of a topic. Raises LagUnknown."""
        return self._positions(topic, self._described(topic)[1], positions, limit_s)

    def _in_place_of(self, group: str) -> Consumer:
        """Who asks as a group, without joining it.

        An AdminClient could ask, too, but it ends the process (librdkafka 2.16) while the group's coordinator
        moves or its topic is being made: it sends for a new one in the name of a group that it doesn't have.
        """
        if group not in self._groups:
            self._groups[group] = Consumer(
                {
                    **kafka_client(self._bootstrap),
                    "group.id": group,
                    "enable.auto.commit": False,
                    "log_level": 2,
                }
            )
        return self._groups[group]

    def _positions(
        self, topic: str, partitions: Sequence[int], following: Mapping[int, int], limit_s: float
    ) -> list[Position]:
        young_ms = int((time.time() - limit_s) * 1000)
        earliest, latest = OffsetSpec.earliest(), OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client's
        starts = self._offsets(topic, partitions, earliest)
        ends = self._offsets(topic, partitions, latest)
        # Asked last: what arrives meanwhile is young, and must not be taken for the opposite.
        young = self._offsets(topic, partitions, OffsetSpec.for_timestamp(young_ms))
        return [
            Position(
                next=following.get(one),
                start=starts[one],
                end=ends[one],
                young=young[one] if young[one] >= 0 else None,
            )
            for one in partitions
        ]

    def _offsets(self, topic: str, partitions: Sequence[int], which: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, one): which for one in partitions}

        def ask() -> dict[int, int]:
            answers = self._admin.list_offsets(
                asked, request_timeout=ANSWER_S, isolation_level=IsolationLevel.READ_COMMITTED
            )
            return {where.partition: answer.result(ANSWER_S).offset for where, answer in answers.items()}

        return self._patiently(ask)

    def _described(self, topic: str) -> tuple[str, list[int]]:
        asked = TopicCollection([topic])
        described = self._patiently(
            lambda: self._admin.describe_topics(asked, request_timeout=ANSWER_S)[topic].result(ANSWER_S)
        )
        if described.topic_id is None:
            raise LagUnknown(f"There is no topic {topic}: `rajada topics ensure` makes it.")
        return str(described.topic_id), sorted(one.id for one in described.partitions)

    def _patiently(self, ask: Callable[[], Answer]) -> Answer:
        try:
            return patiently(ask)
        except KafkaException as error:
            raise LagUnknown(f"Kafka at {self._bootstrap} does not answer: {error.args[0].str()}") from error
