"""Header names as bytes: what Kafka takes and no client's interface lets one write."""

from __future__ import annotations

from unittest import mock

from aiokafka import AIOKafkaProducer
from aiokafka.producer import message_accumulator
from aiokafka.producer import producer as sending
from aiokafka.record.default_records import _DefaultRecordBatchBuilderPy as RecordBatchBuilder


class RawName(str):
    """A text that encodes as these bytes; only the builder in Python asks for them (`RecordBatchBuilder`)."""

    __slots__ = ("raw",)

    def __new__(cls, raw: bytes) -> RawName:
        """`raw`: the name."""
        made = super().__new__(cls, "name")
        made.raw = raw
        return made

    def encode(self, encoding: str = "utf-8", errors: str = "strict") -> bytes:
        """The bytes as they are."""
        return self.raw


async def produce(
    bootstrap: str, topic: str, key: bytes, value: bytes, *names: bytes, partition: int | None = None
) -> None:
    """Write one record with headers of these names."""
    builder = "DefaultRecordBatchBuilder"
    with (
        mock.patch.object(message_accumulator, builder, RecordBatchBuilder),
        mock.patch.object(sending, builder, RecordBatchBuilder),
    ):
        async with AIOKafkaProducer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait(
                topic, value, key, partition=partition, headers=[(RawName(name), b"value") for name in names]
            )
