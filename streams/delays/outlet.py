"""The transactional producer: a batch's records and offsets, all or nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer, TopicPartition

from kafka_access import kafka_client
from streams.delays.forwarder import Refused, SessionOver, Undone
from streams.delays.records import Place, Send

TRANSACTION_S: Final = 5.0
"""Kafka aborts the transaction of a forwarder that died after this; until then its partitions stand still."""
INIT_S: Final = 10.0
END_S: Final = 5.0
"""How long each step of a transaction's end is asked for, before the session is given up."""
HANGS_S: Final = 2 * END_S
"""Past which a call that was given END_S is taken for one that never returns."""
_REFUSALS: Final = frozenset(
    {
        KafkaError.MSG_SIZE_TOO_LARGE,
        KafkaError.RECORD_LIST_TOO_LARGE,
        KafkaError.INVALID_RECORD,
        KafkaError.INVALID_TIMESTAMP,
    }
)


class TransactionalOutlet:
    """One producer under one transactional id; whoever takes the id next ends what this one left open."""

    def __init__(self, bootstrap: str, *, transactional_id: str, full_name: Callable[[str], str]) -> None:
        """`full_name` puts the installation's prefix before a topic's name."""
        self._full_name = full_name
        self._refused: set[int] = set()
        self._producer = Producer(
            {
                **kafka_client(bootstrap),
                "transactional.id": transactional_id,
                "transaction.timeout.ms": int(TRANSACTION_S * 1000),
                "linger.ms": 2,
                "partitioner": "murmur2_random",
                # Kafka asks for patience while it still ends the transaction before: a few ms, not 100.
                "retry.backoff.ms": 5,
                "retry.backoff.max.ms": 500,
                # A record that was taken compressed must fit again, under the same limit.
                "compression.type": "zstd",
                # What a topic takes is for its own max.message.bytes to say.
                "message.max.bytes": 64 * 1024 * 1024,
                "reconnect.backoff.max.ms": 2_000,
                "log_level": 2,  # what it can't do is raised
            }
        )

    def open(self) -> None:
        """Take the transactional id: what is left open under it is ended first. Raises SessionOver."""
        try:
            self._producer.init_transactions(INIT_S)
        except KafkaException as error:
            raise SessionOver(f"Kafka gives no transactional id: {error.args[0].str()}") from error

    def forward(self, sends: Sequence[Send], offsets: Mapping[Place, int], now_ms: int, group: Any) -> None:
        """See `forwarder.Outlet`; `group` is the consumer's membership as it is now."""
        self._refused.clear()
        try:
            self._producer.begin_transaction()
            for n, send in enumerate(sends):
                self._produce(n, send, now_ms)
            passed = [TopicPartition(*place, offset) for place, offset in offsets.items()]
            # Given a time or not, it waits for ever when the group's coordinator goes (librdkafka 5456).
            within(HANGS_S, partial(self._producer.send_offsets_to_transaction, passed, group, END_S))
            self._until_ended(self._producer.commit_transaction)
        except BufferError as error:
            self._undo("the producer's queue is full", error)
        except KafkaException as error:
            self._undo(error.args[0].str(), error)

    def close(self) -> None:
        """Send nothing more, without waiting; an open transaction is ended by the next one of this id."""
        self._producer.purge()

    def _produce(self, n: int, send: Send, now_ms: int) -> None:
        try:
            self._producer.produce(
                self._full_name(send.topic),
                send.value,
                send.key,
                send.partition,
                on_delivery=partial(self._delivered, n),
                timestamp=now_ms,
                headers=list(send.headers),
            )
        except KafkaException as error:
            if error.args[0].code() in _REFUSALS:
                self._refused.add(n)
            raise

    def _delivered(self, n: int, error: KafkaError | None, _: Message) -> None:
        if error is not None and error.code() in _REFUSALS:
            self._refused.add(n)

    def _undo(self, why: str, cause: Exception) -> None:
        """Abort. Raises Refused or Undone when nothing has happened, SessionOver when that isn't certain."""
        error = cause.args[0] if isinstance(cause, KafkaException) else None
        if error is not None and not error.txn_requires_abort() and error.fatal():
            raise SessionOver(f"the transaction's end is unknown: {why}") from cause
        try:
            self._until_ended(self._producer.abort_transaction)
        except KafkaException as failed:
            raise SessionOver(f"the transaction can't be aborted: {failed.args[0].str()}") from cause
        self._producer.poll(0)
        if self._refused:
            raise Refused(self._refused) from cause
        raise Undone(why) from cause

    def _until_ended(self, end: Callable[[float], None]) -> None:
        """Ask for the end of the transaction until there is an answer, or for long enough."""
        deadline = time.monotonic() + END_S
        while True:
            try:
                end(max(0.1, deadline - time.monotonic()))
            except KafkaException as error:
                if not error.args[0].retriable() or time.monotonic() > deadline:
                    raise
            else:
                return


def within(seconds: float, call: Callable[[], None]) -> None:
    """Make a call that may never return; raises what it raises, SessionOver when it takes longer.

    Then its thread stays behind with all that it holds, until the process ends: nothing can end it sooner.
    """
    ended: list[Exception | None] = []

    def run() -> None:
        try:
            call()
        except Exception as error:  # raised again where it was called from
            ended.append(error)
        else:
            ended.append(None)

    hand = threading.Thread(target=run, name="delays-offsets", daemon=True)
    hand.start()
    hand.join(seconds)
    if not ended:
        raise SessionOver(f"Kafka's client did not return within {seconds:.0f} s: a new one takes its place")
    if ended[0] is not None:
        raise ended[0]
