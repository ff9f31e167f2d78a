"""Writes copies of records for commands of an operator, and waits until each is durable or refused."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from kafka_access import keyed_sender
from ops.errors import OpsError
from settings import Settings
from streams.requeueing import Copy

DELIVERY_S: Final = 60.0
_POLL_S: Final = 0.2
_TOO_LARGE: Final = frozenset({KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE})

Ends = dict[str, dict[int, int]]
"""Topic (name without prefix) → partition → an offset."""


class SendFailed(OpsError):
    """Kafka did not take a record; what was recorded before is durable, and the same command goes on."""

    exit_code = 7


class Sender:
    """One producer: idempotent, acks of all, murmur2 as everywhere. Not for several threads."""

    def __init__(self, bootstrap: str, settings: Settings) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self.ends: Ends = defaultdict(dict)
        """Behind the last record that was written to each partition."""
        self._failures: dict[int, KafkaError] = {}
        self._producer = Producer(
            {
                **keyed_sender(bootstrap, "rajada-ops", DELIVERY_S),
                "linger.ms": 5,
                # what a topic takes is for its own limit to say
                "message.max.bytes": 64 * 1024 * 1024,
                "queue.buffering.max.kbytes": 128 * 1024,
            }
        )

    def send(self, copies: Sequence[Copy]) -> dict[int, str]:
        """Write these in their order and wait; returns which (by index) are too large for their topic.

        Raises SendFailed when Kafka takes one for no other reason not.
        """
        self._failures.clear()
        for index, copy in enumerate(copies):
            self._produce(index, copy)
        self._flush()
        # several in one batch are refused together: each once more, alone
        suspects = [index for index, error in self._failures.items() if error.code() in _TOO_LARGE]
        refused: dict[int, str] = {}
        for index in sorted(suspects):
            self._failures.clear()
            self._produce(index, copies[index])
            self._flush()
            if index in self._failures:
                size = len(copies[index].value or b"")
                topic = self._settings.topic(copies[index].topic)
                refused[index] = f"{size:,} bytes are above max.message.bytes of {topic}: raise that first"
        return refused

    def _produce(self, index: int, copy: Copy) -> None:
        while True:
            try:
                self._producer.produce(
                    self._settings.topic(copy.topic),
                    copy.value,
                    copy.key,
                    headers=list(copy.headers),
                    timestamp=copy.at_ms,
                    partition=copy.partition,
                    on_delivery=partial(self._delivered, index, copy.topic),
                )
            except BufferError:
                self._producer.poll(_POLL_S)
                self._raise_failure()
            except KafkaException as error:
                self._failures[index] = error.args[0]
                self._raise_failure()
                return
            else:
                return

    def _flush(self) -> None:
        while self._producer.flush(_POLL_S):
            self._raise_failure()
        self._raise_failure()

    def _delivered(self, index: int, topic: str, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._failures[index] = error
            return
        partition, end = message.partition() or 0, (message.offset() or 0) + 1
        ends = self.ends[topic]
        ends[partition] = max(end, ends.get(partition, 0))

    def _raise_failure(self) -> None:
        for error in self._failures.values():
            if error.code() not in _TOO_LARGE:
                raise SendFailed(
                    f"Kafka at {self._bootstrap} did not take a record: {error.str()}. Nothing is lost; when "
                    "Kafka is well again, the same command goes on."
                )
