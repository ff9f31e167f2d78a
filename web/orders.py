"""Orders to the worker that owns a group link: the one way in which the service changes a job.

The queue's row shows what became of an order, since the worker tells it; nobody writes into it from here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final
from uuid import uuid4

import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_access import keyed_sender
from schemas.registry import NotRegistered, RegistryAway
from schemas.topic_names import CONTROL
from settings import Settings
from sinks.group_link_rows import QueueRow, settlement_of

log = structlog.get_logger(__name__)

ANSWER_S: Final = 3.0
DELIVERY_S: Final = 10.0


class Orders:
    """Writes orders to `dispatch.control`; connects with the first one."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._topic = settings.topic(CONTROL)
        self._producer: Producer | None = None

    async def can_be_given(self) -> bool:
        """Whether Kafka answers now, and has the topic of orders."""
        return await asyncio.to_thread(self._answers)

    async def settle(self, row: QueueRow, message_id: str, by: str) -> bool:
        """Order that a group link ends as sent with another message; returns whether that is durable.

        Args:
            row: as it stood a moment ago.
            message_id: the provider's, of the message that was sent instead.
            by: the token's id.
        """
        now_ms = time.time_ns() // 1_000_000
        return await asyncio.to_thread(
            self._order, lambda: settlement_of(row, message_id, str(uuid4()), f"web:{by}", now_ms)
        )

    async def close(self) -> None:
        """Nothing is on its way any more."""
        if self._producer is not None:
            await asyncio.to_thread(self._producer.flush, DELIVERY_S)

    def _answers(self) -> bool:
        if not self._settings.kafka_bootstrap_servers:
            return False
        try:
            found = self._connected().list_topics(self._topic, timeout=ANSWER_S).topics.get(self._topic)
        except KafkaException:
            return False
        return found is not None and found.error is None

    def _order(self, made: Callable[[], tuple[bytes, bytes]]) -> bool:
        try:
            key, value = made()
        except (RegistryAway, NotRegistered) as error:  # the first order asks for a schema's id
            log.warning("order_not_written", error=str(error))
            return False
        return self._send(key, value)

    def _send(self, key: bytes, value: bytes) -> bool:
        told: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _: Message) -> None:
            told.append(error)

        try:
            producer = self._connected()
            producer.produce(self._topic, value, key, on_delivery=delivered)
            producer.flush(DELIVERY_S + 1)
        except (KafkaException, BufferError) as error:
            log.warning("order_not_written", error=type(error).__name__)
            return False
        if told != [None]:
            log.warning("order_not_written", error=told[0].name() if told and told[0] else "no answer")
        return told == [None]

    def _connected(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(keyed_sender(self._settings.bootstrap(), "rajada-web", DELIVERY_S))
        return self._producer
