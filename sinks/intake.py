"""Kafka's side of the sink: the group, the topic as it is now, records from given positions.

The group only shares the partitions out. Where to read from is never the group's word but Postgres', so
an assignment fetches nothing until `start` was called with positions.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, TopicDescription

from kafka_access import asker, group_member, headers_of
from sinks.batch import End, Record
from sinks.failures import PositionMoved, Unavailable

log = structlog.get_logger(__name__)

ASK_S: Final = 3.0
"""How long a request to Kafka may take before it counts as away."""
WATCH_EVERY_S: Final = 5.0
"""How often the topic's id is looked at."""


class Intake:
    """One member of the sink's group, reading one topic."""

    def __init__(self, bootstrap: str, *, group: str, topic: str, session_timeout_s: float) -> None:
        self._topic = topic
        self.partitions: frozenset[int] | None = None
        """What the group gave us; None = it has not spoken yet."""
        self.stale = True
        """Set when positions no longer hold (rebalance, out of range): call `start` before `take`."""
        self._lost: set[int] = set()
        self._all_down = False
        self._asked: Future[TopicDescription] | None = None
        self._watch_at = 0.0
        self._admin = AdminClient(asker(bootstrap))
        self._consumer = Consumer(
            {
                # Positions are Postgres': the loss of one is an alarm (`_first_there`).
                **group_member(bootstrap, group, session_timeout_s),
                # A fetch under way delays the first one of a partition that starts.
                "fetch.wait.max.ms": 100,
                "queued.max.messages.kbytes": 32 * 1024,
                "error_cb": self._on_error,
            }
        )
        self._consumer.subscribe(
            [topic], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
        )

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def topic_id(self) -> str:
        """Kafka's id of the topic as it is now; Unavailable when Kafka is away or there is no topic."""
        return self._told(self._ask())

    def start(self, positions: Mapping[int, int]) -> None:
        """Read these partitions from these offsets. Raises Unavailable when Kafka can't be asked.

        A position that was out of range starts at the first record there is: what was between is gone
        from Kafka, which is alarmed; what is read twice changes nothing.
        """
        at = {partition: self._first_there(partition, offset) for partition, offset in positions.items()}
        self._consumer.assign([TopicPartition(self._topic, p, offset) for p, offset in at.items()])
        self._lost.clear()
        self._watch_at = time.monotonic() + WATCH_EVERY_S
        self.stale = False

    def hold(self, timeout_s: float) -> None:
        """Fetch nothing, stay in the group, and take part in rebalances for a while."""
        self.stale = True
        self._consumer.assign([])
        self._consumer.poll(timeout_s)

    def idle(self, timeout_s: float) -> None:
        """Take part in rebalances for a while, with nothing to read."""
        self._consumer.poll(timeout_s)

    def take(self, limit: int, timeout_s: float) -> list[Record | End]:
        """Wait for a first record, then whatever else is here already; ends of partitions among them.

        Empty when nothing came in time, or when the positions became stale meanwhile: then whatever came
        is read again from where Postgres stands.
        """
        first = self._consumer.poll(timeout_s)
        if first is None or self.stale:
            return []
        found = [first, *self._consumer.consume(limit - 1, timeout=0)]
        good = [record for message in found if (record := self._record(message)) is not None]
        return [] if self.stale else good

    def watch(self, topic_id: str) -> None:
        """Now and then, without waiting: is Kafka there, and is the topic still the same?

        Raises Unavailable, or PositionMoved when the topic was made again: its offsets start anew.
        """
        if self._asked is None:
            if self._all_down or time.monotonic() >= self._watch_at:
                self._asked = self._ask()
            return
        if not self._asked.done():
            return
        asked, self._asked = self._asked, None
        self._all_down = False
        self._watch_at = time.monotonic() + WATCH_EVERY_S
        if self._told(asked) != topic_id:
            raise PositionMoved(
                f"the topic {self._topic} was deleted and made again; reading it from its start"
            )

    def commit(self, positions: Mapping[int, int]) -> None:
        """Tell the group how far we are, for tools that show lag; nothing of ours reads it."""
        offsets = [TopicPartition(self._topic, partition, offset) for partition, offset in positions.items()]
        with contextlib.suppress(KafkaException):
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def _ask(self) -> Future[TopicDescription]:
        topics = TopicCollection([self._topic])
        return self._admin.describe_topics(topics, request_timeout=ASK_S)[self._topic]

    def _told(self, asked: Future[TopicDescription]) -> str:
        try:
            return str(asked.result(ASK_S + 1).topic_id)
        except KafkaException as error:
            if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
                raise Unavailable(f"the topic {self._topic} does not exist; start a worker") from error
            raise Unavailable(f"Kafka is away ({error.args[0].name()})") from error
        except TimeoutError as error:
            raise Unavailable("Kafka is away (no answer)") from error

    def _first_there(self, partition: int, offset: int) -> int:
        if partition not in self._lost:
            return offset
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(self._topic, partition), timeout=ASK_S
            )
        except KafkaException as error:
            raise Unavailable(f"Kafka is away ({error.args[0].name()})") from error
        if low <= offset <= high:
            return offset
        if offset < low:
            log.error("outcomes_expired", partition=partition, lost=low - offset, first=low)
        else:
            log.error("outcomes_cut", partition=partition, position=offset, end=high)
        return low

    def _record(self, message: Message) -> Record | End | None:
        """The message in our words; None for an error, which is noted for what comes next."""
        partition, offset, error = message.partition(), message.offset(), message.error()
        if error is None or error.code() == KafkaError._PARTITION_EOF:
            if partition is None or offset is None:
                return None  # the client's types allow it, Kafka doesn't
            if error is not None:
                return End(partition, offset)
            return Record(
                self._topic,
                partition,
                offset,
                message.timestamp()[1],
                message.key(),
                message.value(),
                headers_of(message) or [],  # an outcome is what its value says
            )
        if error.code() == KafkaError._AUTO_OFFSET_RESET and partition is not None:
            self._lost.add(partition)
            self.stale = True
        else:
            log.warning("outcomes_read_error", error=error.name())
            self._all_down = True
        return None

    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        self.partitions = frozenset(part.partition for part in given)
        self.stale = True
        consumer.assign([])
        log.info("sink_assigned", partitions=sorted(self.partitions))

    def _on_revoke(self, consumer: Consumer, _: list[TopicPartition]) -> None:
        self.partitions = frozenset()
        self.stale = True
        consumer.unassign()

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._all_down = True
