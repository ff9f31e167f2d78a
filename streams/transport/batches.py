"""How an agent consumes a topic in batches: `Batched` marks the topic, `each_batch` runs the work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, Protocol

import faust
from faust.types import ConsumerMessage

from .failure import end_process

MAX_OUTSTANDING = 100_000
"""Records sent but not yet durable, above which consumption is held."""


class Record(Protocol):
    """A record as it lies in Kafka: bytes, never decoded by the transport."""

    @property
    def topic(self) -> str:
        """Name of the topic."""

    @property
    def partition(self) -> int:
        """Number of the partition."""

    @property
    def offset(self) -> int:
        """Offset in the partition."""

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970, UTC."""

    @property
    def key(self) -> bytes | None:
        """The key, if it has one."""

    @property
    def value(self) -> bytes | None:
        """The value; None is a tombstone."""

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """The headers in their order; names may repeat."""


Work = Callable[[Sequence[Record], int], Awaitable[None]]
"""What is done with a batch: its records, in log order, and the partition they all belong to."""


def size_of(records: Sequence[Record]) -> int:
    """Bytes of the keys and values of some records."""
    return sum(len(record.value or b"") + len(record.key or b"") for record in records)


def cut(
    start: int, end: int, records: Sequence[Record], size: int, size_bytes: int
) -> Iterator[tuple[int, int, Sequence[Record]]]:
    """Cut a fetched range into adjacent ranges that cover it.

    Each has at most `size` records, and at most `size_bytes` unless it has only one.
    """
    i = 0
    while i < len(records):
        part = records[i : i + size]
        while len(part) > 1 and size_of(part) > size_bytes:
            part = part[: len(part) // 2]
        i += len(part)
        stop = part[-1].offset + 1 if i < len(records) else end
        yield start, stop, part
        start = stop
    if not records:
        yield start, end, records


def message_of(tp: Any, records: Sequence[Record], offset: int, generation: int) -> Any:
    """The one Faust message that carries a whole batch, and stands at `offset`."""
    return ConsumerMessage(
        topic=tp.topic,
        partition=tp.partition,
        offset=offset,
        timestamp=records[-1].timestamp / 1000.0 if records else 0.0,
        timestamp_type=0,
        headers=None,
        key=None,
        value=records,
        checksum=None,
        serialized_key_size=0,
        serialized_value_size=0,
        tp=tp,
        generation_id=generation,
    )


class Batched(faust.Schema):
    """Schema that marks a topic as batched: `event.value` is a sequence of raw records of one partition."""

    def compile(self, app: Any, **kwargs: Any) -> Callable[..., Awaitable[Any]]:
        """Build the decoder that Faust calls per message; it decodes nothing."""

        async def decode(message: Any, *, propagate: bool = False) -> Any:
            """The event of a message."""
            return app.create_event(None, message.value, None, message)

        return decode


def _count(monitor: Any, stream: Any, event: Any) -> None:
    """Faust's monitor has counted the batch as one message and one event: let it count records."""
    more = len(event.value) - 1
    monitor.messages_received_total += more
    monitor.messages_received_by_topic[event.message.topic] += more
    monitor.events_total += more
    monitor.events_by_stream[monitor.stream_lookup.get(stream)] += more
    monitor.events_by_task[monitor.task_lookup.get(stream.task_owner)] += more


async def owned_batches(
    stream: Any, *, lease: bool = True, max_outstanding: int = MAX_OUTSTANDING
) -> AsyncIterator[Any]:
    """The events of a batched topic's stream, each when it is certainly ours; to be acknowledged by hand.

    Holds while more than `max_outstanding` sent records await their durability.
    """
    clone = stream.noack()
    async for event in faust.Stream.events(clone):
        _count(event.app.monitor, clone, event)
        consumer, producer = event.app.consumer, event.app.producer
        if producer.outstanding > max_outstanding:
            await producer.below(max_outstanding // 2)
        if lease and not await consumer.owned(event.message):
            continue
        yield event


async def each_batch(
    stream: Any, work: Work, *, lease: bool = True, max_outstanding: int = MAX_OUTSTANDING
) -> None:
    """Run `work` for each batch of a batched topic: the quickest way in which an agent can consume it.

    A batch is acknowledged when its work returns. When the work raises, nothing is acknowledged and the
    process ends with status 70: what should not end it (a poisonous record, a service that is away) is for
    the work to handle. Before the work it waits until the batch is certainly ours (unless `lease=False`, for
    work that writes nothing), and until less than `max_outstanding` sent records await their durability.
    """
    async for event in owned_batches(stream, lease=lease, max_outstanding=max_outstanding):
        try:
            await work(event.value, event.message.partition)
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            end_process(error)
        await stream.ack(event)
