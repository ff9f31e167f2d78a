"""The group's consumer: records of the delay topics as they come, and what the group gives and takes."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import structlog
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_access import group_member, headers_of
from streams.delays.forwarder import SessionOver
from streams.delays.queues import Queues
from streams.delays.records import End, Place, Record

log = structlog.get_logger(__name__)

MOST: Final = 1_000
"""Records that one cycle takes in."""
ASK_S: Final = 5.0
SILENT_S: Final = 3.0
"""A partition of ours of which nothing has come for so long, not even its end, is read anew."""
QUICK_S: Final = 0.25
LONGER_S: Final = 2.0
"""How long its offset is asked for, while the others wait; doubling with each time that this was in vain."""


class GroupIntake:
    """One member of the forwarders' group; tells the queues what the group gives it and takes from it."""

    def __init__(
        self,
        bootstrap: str,
        *,
        group: str,
        waits_ms: Mapping[str, int],
        queues: Queues,
        session_timeout_s: float,
    ) -> None:
        """`waits_ms`: the delay topics, by their full names."""
        self._queues = queues
        self.spoken_to = False
        """Whether the group has ever given us something, be it nothing."""
        self.away_since_s: float | None = None
        """When no broker could be reached (monotonic), if nothing has come since."""
        self._silent: dict[Place, float] = {}
        """Partitions of which nothing has come since they were given to us, at that time (monotonic)."""
        self._rouse_at_s = 0.0
        self._ask_s = QUICK_S
        self._consumer = Consumer(
            {
                **group_member(bootstrap, group, session_timeout_s),
                # Whoever keeps a partition goes on with it while others move.
                "partition.assignment.strategy": "cooperative-sticky",
                # Every record has a tenth of a second to be read in before it may leave, so let Kafka answer
                # at a steady pace: an answer to each end of a transaction keeps it busier than all else.
                "fetch.wait.max.ms": 50,
                "fetch.min.bytes": 1024 * 1024,
                "fetch.message.max.bytes": 512 * 1024,
                "queued.max.messages.kbytes": 16 * 1024,
                "log_level": 2,  # what it can't do is told here, not ten times a second by the client
                "error_cb": self._on_error,
            }
        )
        self._consumer.subscribe(
            list(waits_ms), on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def take(self, wait_s: float) -> Iterator[Record | End]:
        """See `forwarder.Intake`. One by one: what the group takes back is never handed out afterwards."""
        if self._silent:
            self._rouse()
        for _ in range(MOST):
            message = self._poll(wait_s)
            wait_s = 0.0
            if message is None:
                return
            came = self._read(message)
            if came is not None:
                yield came

    def flow(self, pause: Sequence[Place], go_on: Sequence[Place]) -> None:
        """See `forwarder.Intake`."""
        if pause:
            self._consumer.pause([TopicPartition(*place) for place in pause])
        if go_on:
            self._consumer.resume([TopicPartition(*place) for place in go_on])

    def group_metadata(self) -> Any:
        """Who we are in the group: the coordinator refuses offsets of whoever isn't a member any more."""
        return self._consumer.consumer_group_metadata()

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    # -- what comes
    def _poll(self, wait_s: float) -> Message | None:
        try:
            return self._consumer.poll(wait_s)
        except KafkaException as error:
            raise SessionOver(f"Kafka: {error.args[0].str()}") from error

    def _read(self, message: Message) -> Record | End | None:
        topic, partition, offset, error = (
            message.topic(),
            message.partition(),
            message.offset(),
            message.error(),
        )
        if error is None:
            self.away_since_s = None
            assert topic is not None and partition is not None and offset is not None
            if self._silent:
                self._silent.pop((topic, partition), None)
            headers = headers_of(message)
            return Record(
                topic,
                partition,
                offset,
                message.timestamp()[1],
                message.key(),
                message.value(),
                headers or (),
                readable=headers is not None,
            )
        if error.code() == KafkaError._PARTITION_EOF:
            self.away_since_s = None
            assert topic is not None and partition is not None and offset is not None
            self._silent.pop((topic, partition), None)
            return End((topic, partition), offset)
        if error.code() == KafkaError._AUTO_OFFSET_RESET and topic is not None and partition is not None:
            self._start_over(topic, partition)
        elif error.fatal() or error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise SessionOver(f"Kafka: {error.str()}")
        else:
            log.warning("delays_read_error", error=error.name())
        return None

    def _start_over(self, topic: str, partition: int) -> None:
        """There is no committed offset, or no record at it any more: begin with the first there is."""
        place = TopicPartition(topic, partition, OFFSET_BEGINNING)
        try:
            (committed,) = self._consumer.committed([TopicPartition(topic, partition)], timeout=ASK_S)
            self._consumer.incremental_unassign([place])
            self._consumer.incremental_assign([place])
            self._consumer.resume([place])
        except KafkaException as error:
            raise SessionOver(f"Kafka: {error.args[0].str()}") from error
        self._queues.assign([(topic, partition)])
        if committed.offset >= 0:
            log.error(
                "delayed_records_expired",
                topic=topic,
                partition=partition,
                position=committed.offset,
                what_to_do="records were deleted before they were forwarded: their jobs stay pending in the "
                "table; find them there and run `rajada jobs run-now`",
            )

    def _rouse(self) -> None:
        """Read silent partitions anew, from offsets that we ask for ourselves.

        The client asks once for the offsets of what it is given. Where that hits a coordinator that is only
        just moving, as after a broker's restart, it never asks again, so it never reads (librdkafka 5586).
        """
        now_s = time.monotonic()
        silent = [place for place, since_s in self._silent.items() if now_s - since_s >= SILENT_S]
        if not silent or now_s < self._rouse_at_s:
            return
        self._rouse_at_s = now_s + SILENT_S
        try:
            told = self._consumer.committed([TopicPartition(*place) for place in silent], timeout=self._ask_s)
        except KafkaException:
            # away, or an open transaction holds the offsets: then the client waits for the same
            self._ask_s = min(self._ask_s * 2, LONGER_S)
            return
        known = [one for one in told if one.error is None]
        if not known:
            return
        for one in known:
            one.offset = one.offset if one.offset >= 0 else OFFSET_BEGINNING
        try:
            self._consumer.incremental_unassign(known)
            self._consumer.incremental_assign(known)
            self._consumer.resume(known)
        except KafkaException as error:
            raise SessionOver(f"Kafka: {error.args[0].str()}") from error
        self._ask_s = QUICK_S
        self._queues.assign(_places(known))
        log.warning(
            "delays_read_anew", partitions=len(known), silent_s=round(now_s - min(self._silent.values()))
        )

    # -- what the group gives and takes
    def _on_assign(self, consumer: Consumer, given: list[TopicPartition]) -> None:
        self.spoken_to = True
        consumer.incremental_assign(given)
        consumer.resume(given)  # it may have been paused when it was ours before
        self._queues.assign(_places(given))
        self._silent |= dict.fromkeys(_places(given), time.monotonic())
        if given:
            log.info("delays_assigned", partitions=len(given), all=len(self._queues.places))

    def _on_revoke(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        self._queues.revoke(_places(taken))
        for place in _places(taken):
            self._silent.pop(place, None)
        consumer.incremental_unassign(taken)
        log.info("delays_revoked", partitions=len(taken), all=len(self._queues.places))

    def _on_lost(self, consumer: Consumer, taken: list[TopicPartition]) -> None:
        log.warning("delays_lost", partitions=len(taken))
        self._on_revoke(consumer, taken)

    def _on_error(self, error: KafkaError) -> None:
        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self.away_since_s = time.monotonic()


def _places(parts: list[TopicPartition]) -> list[Place]:
    return [(part.topic, part.partition) for part in parts]
