"""A small world for the stages: a log, a changelog, topics, two clocks, and crashes at any step.

What was sent and not awaited is *pending*; a crash keeps a prefix of it per topic and loses the rest,
as Kafka does with the records of a producer that dies.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from schemas.codec import decode_job, decode_outcome
from schemas.records import Job, Outcome, RunBy
from streams import topics
from streams.agenda import Clocks
from streams.collect import Collector
from streams.contact import Contact, Window, decode_contact, encode_contact
from streams.decide import Decision, Enqueue
from streams.flush import Flusher
from streams.ports import Item
from streams.question import Question
from streams.windows import WindowRule

CHANGELOG = "changelog"
EIGHT_SECONDS = WindowRule(8_000)


class Crash(BaseException):
    """The process is gone."""


@dataclass
class Record:
    """A record of the source topic."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp: int
    topic: str = topics.SOURCE
    partition: int = 0
    headers: Sequence[tuple[str, bytes | None]] = ()


Decide = Callable[[Question], Decision]


def enqueue(question: Question) -> Decision:
    """A decision that always makes a job."""
    return Enqueue(answers=question.events[-1].event_id)


@dataclass
class World:
    """What outlives a worker: the topics, durable or pending, and time."""

    rule: WindowRule = EIGHT_SECONDS
    run_by: RunBy = "lanes"
    decide: Decide = enqueue
    now_ms: int = 1_700_000_000_000
    log: list[Record] = field(default_factory=list)
    committed: int = 0
    written: int = 0
    """How many outcomes the sink has written."""
    durable: dict[str, list[Item]] = field(default_factory=dict)
    pending: list[tuple[str, list[Item], asyncio.Future[dict[int, int]]]] = field(default_factory=list)
    operations: int = 0
    crash_at: int | None = None
    sent_without_fence: int = 0

    def jobs(self) -> list[Job]:
        """Every job record that became durable."""
        return [decode_job(value) for _, value, _, _ in self.durable.get(topics.JOBS, []) if value]

    def outcomes(self) -> list[Outcome]:
        """Every outcome record that became durable."""
        return [decode_outcome(value) for _, value, _, _ in self.durable.get(topics.OUTCOMES, []) if value]

    def send(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        """Queue records; they become durable when the loop runs next, unless the process dies first."""
        self.operation()
        future: asyncio.Future[dict[int, int]] = asyncio.get_running_loop().create_future()
        self.pending.append((topic, list(items), future))
        asyncio.get_running_loop().call_soon(self.deliver)
        self.operation()
        return future

    def deliver(self) -> None:
        """Make everything pending durable."""
        for topic, items, future in self.pending:
            kept = self.durable.setdefault(topic, [])
            kept += items
            if not future.done():
                future.set_result({0: len(kept) - 1})
        self.pending.clear()

    def operation(self) -> None:
        """One step at which the process may die."""
        self.operations += 1
        if self.crash_at is not None and self.operations >= self.crash_at:
            raise Crash

    def die(self, keep: Mapping[str, int]) -> None:
        """The process is gone; of each topic's pending sends the first `keep` had arrived. Time passes."""
        seen: dict[str, int] = {}
        for topic, items, _ in self.pending:
            if seen.setdefault(topic, 0) < keep.get(topic, 0):
                self.durable.setdefault(topic, []).extend(items)
                seen[topic] += 1
        self.pending.clear()
        self.crash_at = None
        self.now_ms += 1_500

    def contacts(self) -> dict[bytes, Contact]:
        """What recovery reads from the changelog."""
        state: dict[bytes, Contact] = {}
        for key, value, _, _ in self.durable.get(CHANGELOG, []):
            assert key is not None
            if value is None:
                state.pop(key, None)
            else:
                state[key] = decode_contact(value)
        return state


class Worker:
    """One life of the worker in a world; implements the ports of the stages itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.memory = world.contacts()
        self.dirty: dict[bytes, None] = {}
        self.position = world.committed
        self.fenced_at = -1
        self.states: list[str | None] = []
        clocks = Clocks(lambda: world.now_ms / 1000, lambda: world.now_ms)
        self.flusher = Flusher(
            self,
            self,
            self,
            self,
            self,
            clocks,
            retry_delay_ms=30_000,
            max_wait_ms=30_000,
            run_by=world.run_by,
            written_below=lambda partition: world.written,
            on_state=self.states.append,
        )
        self.collector = Collector(
            self,
            self,
            self,
            self,
            partitions=1,
            taken=self.flusher.taken,
            on_window=self.flusher.on_window,
            on_progress=self.flusher.on_progress,
            newest_ms=self.flusher.newest_ms,
            wall_ms=clocks.wall_ms,
        )
        self.flusher.own({0})

    # Contacts
    def get(self, key: bytes, partition: int) -> Contact | None:
        return self.memory.get(key)

    def peek(self, key: bytes, partition: int) -> Contact | None:
        return self.memory.get(key)

    def put(self, key: bytes, value: Contact | None, partition: int) -> None:
        self.dirty[key] = None
        if value is None:
            self.memory.pop(key, None)
        else:
            self.memory[key] = value

    def flush(self) -> asyncio.Future[dict[int, int]]:
        items: list[Item] = []
        for key in self.dirty:
            contact = self.memory.get(key)
            items.append((key, None if contact is None else encode_contact(contact), 0, None))
        self.dirty.clear()
        return self.world.send(CHANGELOG, items)

    @property
    def owned(self) -> set[int]:
        return {0}

    def partition_items(self, partition: int) -> Iterator[tuple[bytes, Contact]]:
        return iter(self.memory.items())

    def partition_keys(self, partition: int) -> Iterator[bytes]:
        return iter(self.memory)

    # Outbox
    def send(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        if topic in (topics.JOBS, topics.OUTCOMES) and self.fenced_at != self.world.operations:
            self.world.sent_without_fence += 1
        future = self.world.send(topic, items)
        self.fenced_at = self.world.operations
        return future

    # Source
    async def fence(self) -> None:
        self.world.operation()
        self.fenced_at = self.world.operations

    def stable_end(self, partition: int) -> int | None:
        return len(self.world.log)

    def applied(self, partition: int) -> int | None:
        return self.position

    async def outcomes_end(self, partition: int) -> int:
        return len(self.world.durable.get(topics.OUTCOMES, []))

    def topic_id(self) -> str:
        return "t"

    # Lengths, Decider, Undertaker
    async def lookup(self, keys: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str, str], WindowRule]:
        return dict.fromkeys(keys, self.world.rule)

    async def decide(self, questions: Sequence[Question]) -> list[Decision]:
        self.world.operation()
        return [self.world.decide(question) for question in questions]

    async def letters(self, key: bytes, partition: int, window: Window) -> list[Item]:
        return [(key, self.world.log[member.offset].value, 0, None) for member in window.events]

    # what drives it
    async def collect(self, count: int) -> None:
        """Take in up to `count` records."""
        batch = self.world.log[self.position : self.position + count]
        if batch:
            await self.collector.collect(batch, 0)
            self.position += len(batch)

    async def commit(self) -> None:
        """Commit what is applied, after everything sent is durable (as the transport does)."""
        await asyncio.sleep(0)
        self.world.operation()
        self.world.committed = self.position
