"""The source topic as this worker's group sees it: ownership, how far it is applied, which topic it is."""

from __future__ import annotations

import asyncio
import contextlib
from functools import cached_property
from typing import Final

from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from kafka_access import asker
from settings import RajadaError
from streams.transport import Consumer


class SourceTopicMissing(RajadaError):
    """The source topic is not there; `rajada topics ensure` makes it."""


class SourceTopicRemade(RajadaError):
    """The source topic was deleted and made again under a running worker.

    Its offsets mean other records now; a worker that starts anew reads it from its beginning.
    """


WATCH_S: Final = 5.0


class SourceTopic:
    """What the stages ask of the consumer, for one topic (see `streams.ports.Source`)."""

    def __init__(self, bootstrap: str, topic: str, outcomes: str) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._outcomes = outcomes
        self._topic_id = ""
        self._consumer: Consumer | None = None

    def attach(self, consumer: Consumer) -> None:
        """Ask this consumer from now on."""
        self._consumer = consumer

    @property
    def _attached(self) -> Consumer:
        assert self._consumer is not None, "the worker attaches its consumer before partitions are owned"
        return self._consumer

    async def fence(self) -> None:
        """Return once the group has confirmed, after this call, that we own what we owned."""
        await self._attached.fence()

    def stable_end(self, partition: int) -> int | None:
        """Last stable offset that the newest fetch answer told; None before the first one."""
        return self._attached.stable_end(self._topic, partition)

    def applied(self, partition: int) -> int | None:
        """Every record below was handled; None while unknown."""
        return self._attached.applied(self._topic, partition)

    def topic_id(self) -> str:
        """Kafka's id of the topic, as `identify` last found it."""
        return self._topic_id

    async def identify(self) -> None:
        """Ask Kafka for the topic's id, at every assignment; raises SourceTopicRemade when it changed."""
        topic_id = await asyncio.to_thread(self._describe)
        if self._topic_id and topic_id != self._topic_id:
            raise SourceTopicRemade(
                f"the topic {self._topic} was deleted and made again; this worker ends, and the next one "
                "reads the new topic from its start"
            )
        self._topic_id = topic_id

    async def watch(self) -> None:
        """Look at the topic's id for ever; raises SourceTopicRemade when it is another one."""
        while True:
            await asyncio.sleep(WATCH_S)
            if self._topic_id:
                # away, or just being made: the next look tells
                with contextlib.suppress(KafkaException, TimeoutError, SourceTopicMissing):
                    await self.identify()

    async def outcomes_end(self, partition: int) -> int:
        """The end of a partition of the outcomes topic, asked now."""
        return await asyncio.to_thread(self._end, partition)

    @cached_property
    def _admin(self) -> AdminClient:
        return AdminClient(asker(self._bootstrap))

    def _end(self, partition: int) -> int:
        where = TopicPartition(self._outcomes, partition)
        latest = OffsetSpec.latest()  # type: ignore[no-untyped-call]  # the client leaves it untyped
        asked = self._admin.list_offsets({where: latest}, request_timeout=30)
        return int(asked[where].result(30).offset)

    def _describe(self) -> str:
        described = self._admin.describe_topics(TopicCollection([self._topic]))[self._topic].result(30)
        if described.topic_id is None:
            raise SourceTopicMissing(
                f"The topic {self._topic} does not exist. Make it with `rajada topics ensure`."
            )
        return str(described.topic_id)
