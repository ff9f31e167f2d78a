"""The measure of the worker: a plain confluent-kafka loop that does the same work, without its guarantees.

Same decoding, windows, contact records, decisions (the same reader, in batches of the same size, one batch
under way while more is consumed), same job and outcome bytes, same treatment of its memory. What it leaves
out is the protocol: no frozen record before the send, no waiting until records are durable, no fence, no
lease, no recovery, no live timers (it closes windows by event time and at the end of the log). It is right
only on a backlog and without crashes, and so a bound of what any worker in Python can reach.

`python -m bench.plain_loop`, with the settings of a worker; runs until SIGTERM.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Sequence
from typing import cast

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

import status
from db.pool import async_pool
from schemas.codec import encode_job, encode_outcome
from settings import Settings, get_settings
from streams import topics
from streams.agenda import MAX_DUE
from streams.allocator import suit_many_contacts
from streams.asking import question_of
from streams.closing import sent_of
from streams.contact import Contact, Window, WindowName, encode_contact
from streams.decide import Decision, Enqueue, Stop
from streams.decider import DatabaseDecider
from streams.events import Event, read_event
from streams.facts import FactReader
from streams.freezing import freeze
from streams.lengths import WindowLengths
from streams.partitioner import partition_of
from streams.question import Question
from streams.windows import drop, prune, take_in

NAME = "plain-loop"
CONSUMED = 1_000
COMMIT_S = 1.0

Due = tuple[bytes, int, Contact, Window]


class Partition:
    """What the loop knows of one partition."""

    def __init__(self) -> None:
        self.open: deque[Due] = deque()
        """In the order of their deadlines: the workload's windows are of one length."""
        self.newest_ms = 0
        self.ended = False


class PlainLoop:
    """Consume, decide, produce."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._contacts: dict[bytes, Contact] = {}
        self._partitions: dict[int, Partition] = {}
        self._taken: set[WindowName] = set()
        self._dirty: dict[bytes, int] = {}
        self.stopping = False
        self._consumer = Consumer(
            {
                "bootstrap.servers": settings.bootstrap(),
                "group.id": settings.topic(NAME),
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": settings.bootstrap(),
                "acks": "all",
                "enable.idempotence": True,
                "linger.ms": 2,
                "partitioner": "murmur2_random",
                "queue.buffering.max.messages": 1_000_000,
            }
        )
        self._count = topics.partition_count(settings.bootstrap(), settings)
        self._source = settings.topic(topics.SOURCE)
        self._jobs = settings.topic(topics.JOBS)
        self._outcomes = settings.topic(topics.OUTCOMES)
        self._changelog = settings.topic(topics.CONTACTS_CHANGELOG)

    async def run(self) -> None:
        """Until `stopping`."""
        pool = async_pool(self._settings.database(), name=NAME, statement_timeout_ms=10_000)
        async with pool:
            decider = DatabaseDecider(FactReader(pool), self._settings)
            lengths = WindowLengths(pool, self._settings)
            self._consumer.subscribe([self._source], on_assign=self._assigned)
            deciding: asyncio.Task[list[Decision]] | None = None
            due: list[Due] = []
            commit_at = time.monotonic() + COMMIT_S
            while not self.stopping:
                messages = self._consumer.consume(CONSUMED, 0.0)
                if messages:
                    await self._collect(messages, lengths)
                if deciding is not None and deciding.done():
                    self._close(due, deciding.result())
                    deciding = None
                if deciding is None and (due := self._take()):
                    deciding = asyncio.create_task(decider.decide([_question(one) for one in due]))
                self._producer.poll(0)
                if time.monotonic() > commit_at:
                    self._commit()
                    commit_at = time.monotonic() + COMMIT_S
                await asyncio.sleep(0 if messages else 0.002)
        self._producer.flush(10)
        self._consumer.close()

    def _assigned(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._partitions = {one.partition: Partition() for one in partitions}
        status.report(NAME, "ready")

    async def _collect(self, messages: Sequence[Message], lengths: WindowLengths) -> None:
        now_ms = time.time_ns() // 1_000_000
        events: list[tuple[Event, int]] = []
        for message in messages:
            number = message.partition() or 0
            error = message.error()
            if error is None:
                event = self._read(message, number, now_ms)
                self._partitions[number].ended = False
                events.append((event, number))
            elif error.code() == KafkaError._PARTITION_EOF:
                self._partitions[number].ended = True
            else:
                raise KafkaException(error)
        rules = await lengths.lookup(
            list({(one.organization_id, one.conversation_id, one.session_id): None for one, _ in events})
        )
        for event, number in events:
            key = event.key
            contact = self._contacts.get(key)
            if contact is None:
                contact = self._contacts[key] = Contact(topic_id="")
            elif event.offset <= contact.offset:
                continue
            rule = rules[event.organization_id, event.conversation_id, event.session_id]
            partition = self._partitions[number]
            what, window = take_in(contact, event, rule, self._taken, now_ms, newest_ms=partition.newest_ms)
            partition.newest_ms = max(partition.newest_ms, event.time_ms)
            self._dirty[key] = number
            if what == "opened" and window is not None:
                partition.open.append((key, number, contact, window))
        self._write_contacts()

    def _read(self, message: Message, number: int, now_ms: int) -> Event:
        pairs = cast("list[tuple[str, bytes | None]]", message.headers() or [])  # as it consumes them
        _, at_ms = message.timestamp()
        event = read_event(_bytes(message.value()), pairs, at_ms, now_ms, message.offset() or 0)
        if not isinstance(event, Event) or event.key != message.key():
            raise RuntimeError(f"the workload holds a record that is no event: {event}")
        if event.key not in self._contacts and partition_of(event.key, self._count) != number:
            raise RuntimeError("the workload holds a record in the wrong partition")
        return event

    def _take(self) -> list[Due]:
        due: list[Due] = []
        now_ms = time.time_ns() // 1_000_000
        for partition in self._partitions.values():
            reached = now_ms if partition.ended else min(partition.newest_ms, now_ms)
            while partition.open and len(due) < MAX_DUE and partition.open[0][3].deadline_ms < reached:
                due.append(partition.open.popleft())
        self._taken.update((key, window.id) for key, _, _, window in due)
        return due

    def _close(self, due: Sequence[Due], decisions: Sequence[Decision]) -> None:
        now_ms = time.time_ns() // 1_000_000
        for (key, number, contact, window), decision in zip(due, decisions, strict=True):
            if isinstance(decision, Enqueue):
                freeze(key, window, "job", (), decision.warnings, now_ms, decision.answers)
            elif isinstance(decision, Stop):
                freeze(key, window, decision.reason, (), decision.warnings, now_ms)
            else:
                raise RuntimeError(f"the workload gives only jobs and stops, not {decision}")
            sent = sent_of(key, window)
            if sent.job is not None:
                self._produce(self._jobs, encode_job(sent.job), key, number)
            for outcome in sent.outcomes:
                self._produce(self._outcomes, encode_outcome(outcome), key, number)
            drop(contact, window, 0, now_ms)
            prune(contact, 0, now_ms)
            self._dirty[key] = number
        self._taken.clear()
        self._write_contacts()

    def _write_contacts(self) -> None:
        for key, number in self._dirty.items():
            self._produce(self._changelog, encode_contact(self._contacts[key]), key, number)
        self._dirty.clear()

    def _produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
        self._producer.produce(topic, value, key, partition, _delivered)

    def _commit(self) -> None:
        self._producer.flush(10)
        if any(one.offset >= 0 for one in self._consumer.position(self._consumer.assignment())):
            self._consumer.commit(asynchronous=True)


def _delivered(error: KafkaError | None, message: Message) -> None:
    if error is not None:
        raise KafkaException(error)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


def _question(due: Due) -> Question:
    key, _, contact, window = due
    return question_of(
        key,
        window,
        now_ms=time.time_ns() // 1_000_000,
        superseded_since_ms=contact.superseded.get(window.conversation_id),
        max_wait_ms=30_000,
    )


def main() -> None:
    """Run until SIGTERM."""
    suit_many_contacts()
    loop = PlainLoop(get_settings())

    def stop(*_: object) -> None:
        loop.stopping = True

    signal.signal(signal.SIGTERM, stop)
    asyncio.run(loop.run())


if __name__ == "__main__":
    main()
