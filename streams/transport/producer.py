"""Faust producer on librdkafka: `send_batch` gives one future for the durability of all its records."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import confluent_kafka
from aiokafka.partitioner import murmur2
from confluent_kafka import KafkaError, KafkaException, Message, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from faust.exceptions import NotReady, ProducerSendError
from faust.transport import producer as base
from faust.transport.drivers import aiokafka as driver
from faust.types import TP, RecordMetadata
from mode.utils.times import want_seconds

from .alarms import WHAT_TO_DO
from .buffer import Buffer
from .failure import end_process
from .security import for_librdkafka

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
Item: TypeAlias = (
    "tuple[bytes | None, bytes | None, int] | tuple[bytes | None, bytes | None, int, Headers | None]"
)
"""A record to send: key, value, partition (-1: by murmur2 of the key), and perhaps headers."""

POLL = 0.003
"""Seconds between two looks for delivery reports."""
MESSAGE_TIMEOUT = 0.8
"""Share of the session timeout after which an undelivered record is given up: it must not land later."""
STOP_TIMEOUT = 10.0
"""Seconds that a graceful stop waits for what is still undelivered."""
MAX_RECORD_BYTES = 16 * 1024 * 1024
"""The client's own limit; what a topic takes is for its `max.message.bytes` to say."""
MAX_QUEUE_KBYTES = 256 * 1024
"""KiB of records that wait in librdkafka; when it is full, sending waits."""
_FILLING = 1 << 60


class _Delivery:
    """The delivery callback of all records of one `send_batch`."""

    __slots__ = ("future", "highest", "left", "producer")

    def __init__(self, producer: Producer) -> None:
        self.producer = producer
        self.future: asyncio.Future[dict[int, int]] = producer.loop.create_future()
        self.highest: dict[int, int] = {}
        self.left = _FILLING

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        self.producer.outstanding -= 1
        if error is not None:
            self.producer.failed(self.future, error)
        # reports of one partition come in offset order: the last one is the highest
        self.highest[message.partition()] = message.offset()  # type: ignore[index,assignment]  # set when delivered
        self.fewer(1)

    def fewer(self, n: int) -> None:
        self.left -= n
        if self.left == 0 and not self.future.done():
            self.future.set_result(self.highest)


class Producer(base.Producer):
    """Idempotent, acks=all, murmur2. A record that can't be delivered in time ends the process."""

    outstanding: int = 0
    """Records sent but not yet durable."""
    error: Exception | None = None

    _rd: confluent_kafka.Producer | None = None
    _polling = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.buffer = Buffer(loop=self.loop, beacon=self.beacon)
        self.buffer.app, self.buffer.producer = self.app, self
        self._pending: set[asyncio.Future[Any]] = set()
        self._partition_counts: dict[str, int] = {}

    def _settings(self) -> dict[str, Any]:
        servers = driver.server_list(self.transport.url, 9092)
        security = for_librdkafka(self.app.conf.broker_credentials)
        return {"bootstrap.servers": ",".join(servers), "client.id": self.client_id, **security}

    async def on_start(self) -> None:
        """Start librdkafka."""
        session_ms = self.app.conf.broker_session_timeout * 1000
        self._rd = confluent_kafka.Producer(
            {
                **self._settings(),
                "enable.idempotence": True,
                "acks": "all",
                "partitioner": "murmur2_random",
                "linger.ms": self.linger_ms or 5,
                "compression.type": self.compression_type or "none",
                "queue.buffering.max.messages": 1_000_000,
                "queue.buffering.max.kbytes": MAX_QUEUE_KBYTES,
                "message.max.bytes": max(self.max_request_size, MAX_RECORD_BYTES),
                "message.timeout.ms": max(1000, int(session_ms * MESSAGE_TIMEOUT)),
            }
        )
        await super().on_start()

    async def on_stop(self) -> None:
        """Deliver what is left."""
        await super().on_stop()
        if self._rd is not None:
            await self.loop.run_in_executor(None, self._rd.flush, STOP_TIMEOUT)

    @property
    def _running(self) -> confluent_kafka.Producer:
        if self._rd is None:
            raise NotReady("the producer has not been started")
        return self._rd

    # -- sending

    def send_batch(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        """Send records; the future is done when all are durable, and tells each partition's highest offset.

        A failed delivery ends the process. Returns at once unless librdkafka's queue (a million records)
        is full: use `below` to stay under a bound.
        """
        produce: Callable[..., None] = self._running.produce
        batch = _Delivery(self)
        n = 0
        for key, value, partition, *headers in items:
            arguments = (topic, value, key, partition, batch, None, 0, *headers)
            try:
                produce(*arguments)
            except BufferError:
                self._insist(*arguments)
            n += 1
        self.outstanding += n
        self.app.monitor.messages_sent += n
        self.app.monitor.messages_sent_by_topic[topic] += n
        batch.fewer(_FILLING - n)
        self._track(batch.future)
        return batch.future

    def send_nowait(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int | None,
        timestamp: float | None,
        headers: Mapping[str, bytes] | Headers | None,
    ) -> asyncio.Future[Any]:
        """Send one record for Faust; the future has its RecordMetadata. `timestamp` in seconds."""
        future: asyncio.Future[Any] = self.loop.create_future()
        self.app.on_produce_message.send(
            key=key, value=value, partition=partition, timestamp=timestamp, headers=headers
        )
        pairs = list(headers.items() if isinstance(headers, Mapping) else headers or ()) or None
        at = int(timestamp * 1000) if timestamp else 0
        report = functools.partial(self._delivered, future)
        self._insist(topic, value, key, -1 if partition is None else partition, report, None, at, pairs)
        self.outstanding += 1
        self._track(future)
        return future

    def _insist(self, *arguments: Any) -> None:
        while True:
            try:
                self._running.produce(*arguments)
            except BufferError:
                self._running.poll(0.05)
            else:
                return

    async def send(
        self, *args: Any, transactional_id: str | None = None, **kwargs: Any
    ) -> asyncio.Future[Any]:
        """Send one record (Faust's interface); returns the future of its metadata."""
        return self.send_nowait(*args, **kwargs)

    async def send_and_wait(self, *args: Any, **kwargs: Any) -> Any:
        """Send one record and wait until it is durable."""
        return await self.send_nowait(*args, **kwargs)

    # -- delivery

    def _track(self, future: asyncio.Future[Any]) -> None:
        self._pending.add(future)
        future.add_done_callback(self._pending.discard)
        if not self._polling:
            self._polling = True
            self.loop.call_later(POLL, self._poll)

    def _poll(self) -> None:
        self._running.poll(0)
        if self.outstanding:
            self.loop.call_later(POLL, self._poll)
        else:
            self._polling = False

    def _delivered(self, future: asyncio.Future[Any], error: KafkaError | None, message: Message) -> None:
        self.outstanding -= 1
        if error is not None:
            self.failed(future, error)
        elif not future.done():
            tp = TP(message.topic(), message.partition())
            kind, at = message.timestamp()
            future.set_result(RecordMetadata(tp.topic, tp.partition, tp, message.offset(), at, kind))

    def failed(self, future: asyncio.Future[Any], error: KafkaError) -> None:
        """A record was not delivered: end the process, its work must not be acknowledged."""
        self.error = ProducerSendError(f"a record wasn't delivered ({error}): {WHAT_TO_DO['delivery']}")
        if not future.done():
            future.set_exception(self.error)
        end_process(self.error)

    async def flush(self) -> None:
        """Wait until all sent so far is durable; the consumer does so before each commit."""
        pending = list(self._pending)
        if pending:
            await asyncio.wait(pending)

    async def below(self, n: int) -> None:
        """Wait until at most `n` sent records are not durable yet."""
        while self.outstanding > n:  # noqa: ASYNC110  # delivery reports are polled at this pace anyway
            await asyncio.sleep(POLL)

    # -- topics

    async def create_topic(
        self,
        topic: str,
        partitions: int,
        replication: int,
        *,
        config: Mapping[str, Any] | None = None,
        timeout: Any = 30.0,
        retention: Any = None,
        compacting: bool | None = None,
        deleting: bool | None = None,
        ensure_created: bool = False,
    ) -> None:
        """Create a topic unless it exists (then an error only with `ensure_created`)."""
        if not self.app.conf.topic_allow_declare:
            return
        retention_ms = int(want_seconds(retention) * 1000) if retention else None
        wanted = {**self.transport._topic_config(retention_ms, compacting, deleting), **(config or {})}
        new = NewTopic(topic, partitions, replication, config={k: str(v) for k, v in wanted.items()})

        def create() -> None:
            """Ask the broker (blocks)."""
            try:
                self._admin.create_topics([new])[topic].result(want_seconds(timeout))
            except KafkaException as exc:
                if ensure_created or not self._is_there(topic, exc.args[0]):
                    raise

        await self.loop.run_in_executor(None, create)

    @functools.cached_property
    def _admin(self) -> AdminClient:
        # fresh metadata say whom to ask when the broker that was asked has died
        return AdminClient({**self._settings(), "topic.metadata.refresh.interval.ms": 2_000})

    def _is_there(self, topic: str, refusal: KafkaError) -> bool:
        """Whether a topic could not be created since it exists: who may not create any isn't told so."""
        if refusal.code() != KafkaError.TOPIC_AUTHORIZATION_FAILED:
            return bool(refusal.code() == KafkaError.TOPIC_ALREADY_EXISTS)
        found = self._admin.list_topics(topic, timeout=10).topics.get(topic)
        return found is not None and found.error is None

    async def topic_id(self, topic: str) -> str:
        """Kafka's id of a topic: one that was made anew under the same name has another."""

        def ask() -> str:
            """Ask the broker (blocks)."""
            asked = self._admin.describe_topics(TopicCollection([topic]), request_timeout=10)
            return str(asked[topic].result(15).topic_id)

        found: str = await self.loop.run_in_executor(None, ask)
        return found

    def key_partition(self, topic: str, key: bytes) -> Any:
        """The partition that a record with this key goes to."""
        if topic not in self._partition_counts:
            metadata = self._running.list_topics(topic, 10)
            self._partition_counts[topic] = len(metadata.topics[topic].partitions)
        return TP(topic, (murmur2(key) & 0x7FFFFFFF) % self._partition_counts[topic])

    def supports_headers(self) -> bool:
        """Yes."""
        return True
