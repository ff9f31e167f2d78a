"""What Faust's own `send` goes through: no queue of its own, librdkafka has one."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from faust.transport import producer as base

from .batches import MAX_OUTSTANDING


class Sender(Protocol):
    """What the buffer needs of the producer."""

    outstanding: int

    def send_nowait(self, *message: Any) -> asyncio.Future[Any]:
        """Send one record."""

    async def flush(self) -> None:
        """Wait until all is durable."""

    async def below(self, n: int) -> None:
        """Wait until at most `n` are not."""


class Buffer(base.ProducerBuffer):
    """Faust's buffer without a queue: `send_soon` produces at once; its size is what isn't delivered yet."""

    producer: Sender

    def put(self, fut: Any) -> None:
        """Produce the message of `fut`; the future is done when the record is durable."""
        message, sensors = fut.message, self.app.sensors
        topic = message.channel._topic_name_or_default(message.channel)
        sizes = {"keysize": len(message.key or b""), "valsize": len(message.value or b"")}
        state = sensors.on_send_initiated(self.producer, topic, message=message, **sizes)

        def delivered(sent: asyncio.Future[Any]) -> None:
            error = sent.exception()
            if error is not None:
                fut.set_exception(error)
                sensors.on_send_error(self.producer, error, state)
                return
            fut.set_result(sent.result())
            if message.callback:
                message.callback(fut)
            sensors.on_send_completed(self.producer, state, sent.result())

        self.producer.send_nowait(
            topic, message.key, message.value, message.partition, message.timestamp, message.headers
        ).add_done_callback(delivered)

    @property
    def size(self) -> int:
        """Records sent but not yet durable."""
        return self.producer.outstanding

    async def flush(self) -> None:
        """Wait until all sent so far is durable."""
        await self.producer.flush()

    async def flush_atmost(self, max_messages: int | None) -> int:
        """Wait until at most `max_messages` are outstanding."""
        await self.producer.below(max_messages or 0)
        return 0

    async def wait_until_ebb(self) -> None:
        """Hold the delivery to streams while too much is outstanding."""
        if self.producer.outstanding > MAX_OUTSTANDING:
            await self.producer.below(MAX_OUTSTANDING // 2)
