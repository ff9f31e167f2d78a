"""A world for the executor: topics, a changelog, an engine, one clock, and crashes at any step.

As in `worlds.py`, what was sent and not awaited is pending; a crash keeps a prefix of it per topic and loses
the rest. The delay topics are kept by time: a record reaches `dispatch.jobs` when it is due.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

import msgspec

from schemas.codec import decode_outcome, encode_command, encode_job
from schemas.dead import Header
from schemas.delayed import goes_to
from schemas.records import Command, EventRef, Job, Outcome
from schemas.topic_names import CONTROL, DEAD, DELAY, JOBS, OUTCOMES
from streams.agenda import Clocks
from streams.calls import Calls
from streams.contact_jobs import ContactJobs, decode_jobs, encode_jobs
from streams.due import read_due
from streams.execute import Executor
from streams.handlers.answers import Answer, Done
from streams.heads import Head, State
from streams.job_book import JobBook
from streams.job_endings import Rules
from streams.job_intake import JobIntake
from streams.job_room import Room
from streams.lanes import Lanes, Limits
from streams.ports import Item
from tests.unit.worlds import Crash

CHANGELOG = "jobs changelog"
ORGANIZATION = str(UUID(int=1, version=4))
START_MS = 1_790_000_000_000


def uuid(number: int) -> str:
    """A UUID by number."""
    return str(UUID(int=number, version=4))


def key_of(contact: int = 1, organization: str = ORGANIZATION) -> bytes:
    """The key of a contact."""
    return f"{organization}:{uuid(10_000 + contact)}".encode()


def job_of(number: int, contact: int = 1, *, conversation: int | None = None, **more: object) -> Job:
    """A turn with one event; conversations are the contacts' own unless told."""
    event = EventRef(uuid(100_000 + number))
    payload = {
        "conversation_id": uuid(20_000 + (conversation or contact)),
        "contact_id": uuid(10_000 + contact),
        "channel_session_id": uuid(30_000),
        "inbound_message_id": uuid(40_000 + number),
        "event_ids": [event.event_id],
    }
    given: dict[str, object] = {
        "id": uuid(50_000 + number),
        "organization_id": ORGANIZATION,
        "contact_id": uuid(10_000 + contact),
        "kind": "inbound_turn",
        "source_event_id": event.event_id,
        "seq": 2,
        "created_at_ms": START_MS,
        "run_after_ms": START_MS,
        "payload": msgspec.json.encode(payload).decode(),
        "events": (event,),
    }
    return Job(**{**given, **more})


@dataclass
class Record:
    """A record of `dispatch.jobs` or `dispatch.control`."""

    key: bytes | None
    value: bytes | None
    offset: int
    timestamp: int
    topic: str = JOBS
    partition: int = 0
    headers: Sequence[Header] = ()


Engine = Callable[[Job, int], Answer | float | tuple[float, Answer]]
"""What the agent engine does with an attempt: answers at once, or after so many ms (done, if no more)."""


def willing(job: Job, attempt: int) -> Answer | float:
    """Answers everything."""
    return Done()


@dataclass
class World:
    """What outlives a worker: topics, time, and what the engine has seen."""

    engine: Engine = willing
    now_ms: int = START_MS
    durable: dict[str, list[Item]] = field(default_factory=dict)
    pending: list[tuple[str, list[Item], asyncio.Future[dict[int, int]]]] = field(default_factory=list)
    log: dict[str, list[Record]] = field(default_factory=lambda: {JOBS: [], CONTROL: []})
    committed: dict[str, int] = field(default_factory=lambda: {JOBS: 0, CONTROL: 0})
    delayed: list[tuple[int, Item]] = field(default_factory=list)
    asleep: set[str] = field(default_factory=set)
    operations: int = 0
    crash_at: int | None = None
    unfenced: int = 0
    calls: list[tuple[int, str, int]] = field(default_factory=list)
    """(ms, job, attempt) of every call that began."""
    running: dict[str, int] = field(default_factory=dict)
    """Contact's key → calls under way."""
    together: int = 0
    """Most calls of one contact at a time."""
    read: dict[str, int] = field(default_factory=dict)

    def append(
        self, topic: str, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
    ) -> None:
        """Put a record into a log that the worker reads."""
        records = self.log[topic]
        records.append(Record(key, value, len(records), self.now_ms, topic, 0, headers))

    def give(self, job: Job, key: bytes | None = None) -> None:
        """A job's record arrives."""
        self.append(JOBS, key or f"{job.organization_id}:{job.contact_id}".encode(), encode_job(job))

    def order(self, command: Command, key: bytes = b"") -> None:
        """A command arrives."""
        self.append(CONTROL, key, encode_command(command))

    def outcomes(self, job_id: str | None = None) -> list[Outcome]:
        """Every outcome that became durable, of one job if named."""
        told = [decode_outcome(value) for _, value, _, _ in self.durable.get(OUTCOMES, []) if value]
        return [one for one in told if job_id is None or (one.job is not None and one.job.id == job_id)]

    def rows(self) -> dict[str, Outcome]:
        """Each job's row as the sink would leave it: the highest (replay, seq) wins."""
        rows: dict[str, Outcome] = {}
        for one in self.outcomes():
            if one.job is None:
                continue
            held = rows.get(one.job.id)
            if (
                held is None
                or held.job is None
                or (one.job.replay, one.job.seq) > (held.job.replay, held.job.seq)
            ):
                rows[one.job.id] = one
        return rows

    def letters(self) -> list[Item]:
        """The dead letters."""
        return self.durable.get(DEAD, [])

    def send(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        """Queue records; they become durable when the loop runs next, unless the process dies first."""
        self.operation()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[dict[int, int]] = loop.create_future()
        self.pending.append((topic, list(items), future))
        loop.call_soon(self.deliver)
        self.operation()
        return future

    def deliver(self) -> None:
        """Make everything pending durable."""
        for topic, items, future in self.pending:
            self._keep(topic, items)
            if not future.done():
                future.set_result({0: 0})
        self.pending.clear()

    def _keep(self, topic: str, items: Iterable[Item]) -> None:
        for item in items:
            self.durable.setdefault(topic, []).append(item)
            if topic.startswith(DELAY):
                due_ms = read_due(item[3] or ())
                assert due_ms is not None
                self.delayed.append((due_ms, item))
            elif topic == JOBS:
                self.append(JOBS, item[0], item[1], item[3] or ())

    def operation(self) -> None:
        """One step at which the process may die."""
        self.operations += 1
        if self.crash_at is not None and self.operations >= self.crash_at:
            raise Crash

    def die(self, keep: Mapping[str, int]) -> None:
        """The process is gone; of each topic's pending sends the first `keep` had arrived."""
        seen: dict[str, int] = {}
        for topic, items, _ in self.pending:
            if seen.setdefault(topic, 0) < keep.get(topic, 0):
                self._keep(topic, items)
                seen[topic] += 1
        self.pending.clear()
        self.running.clear()
        self.crash_at = None

    def pass_time(self, ms: int) -> None:
        """Time passes; what is due leaves the delay topics."""
        self.now_ms += ms
        due = [(at, item) for at, item in self.delayed if at <= self.now_ms]
        self.delayed = [(at, item) for at, item in self.delayed if at > self.now_ms]
        for _, (key, value, _, headers) in sorted(due, key=lambda one: one[0]):
            to = goes_to(headers or ())
            assert to in (JOBS, CONTROL), "this world has no other topics"
            self.append(to, key, value, headers or ())

    def recovered(self) -> dict[bytes, ContactJobs]:
        """What recovery reads from the changelog."""
        state: dict[bytes, ContactJobs] = {}
        for key, value, _, _ in self.durable.get(CHANGELOG, []):
            assert key is not None
            if value is None:
                state.pop(key, None)
            else:
                state[key] = decode_jobs(value)
        return state

    def heads(self) -> dict[str, Head]:
        """Every durable head by job."""
        return {job_id: head for jobs in self.recovered().values() for job_id, head in jobs.heads.items()}


class Worker:
    """One life of the executor in a world; implements its ports and its handler itself."""

    kind = "inbound_turn"
    timeout_s = 3600.0

    def __init__(
        self,
        world: World,
        *,
        concurrency: int = 8,
        rules: Rules | None = None,
        spacing_ms: int = 0,
        rate_per_s: float = 0,
        room: Room | None = None,
    ) -> None:
        self.world = world
        self.memory = world.recovered()
        self.dirty: dict[bytes, None] = {}
        self.position = dict(world.committed)
        self.fenced_at = -1
        self.rules = rules or Rules(kinds=frozenset({"inbound_turn"}))
        self.waits: list[tuple[int, asyncio.Future[None]]] = []
        clocks = Clocks(lambda: world.now_ms / 1000, lambda: world.now_ms)
        self.lanes = Lanes(Limits(concurrency=concurrency, rate_per_s=rate_per_s))
        self.book = JobBook(self, self.lanes, clocks.wall_ms, spacing_ms=spacing_ms)
        self.calls = Calls({"inbound_turn": self}, lambda: None)
        self.executor = Executor(self.book, self.calls, self, self, self, clocks, self.rules)
        self.intake = JobIntake(
            self.book, self.executor, self.calls, self, self.rules,
            wall_ms=clocks.wall_ms, leaving=lambda: False, room=room,
        )  # fmt: skip

    # JobsTable
    def get(self, key: bytes, partition: int) -> ContactJobs | None:
        return self.memory.get(key)

    def peek(self, key: bytes, partition: int) -> ContactJobs | None:
        return self.memory.get(key)

    def put(self, key: bytes, value: ContactJobs | None, partition: int) -> None:
        self.dirty[key] = None
        if value is None:
            self.memory.pop(key, None)
        else:
            self.memory[key] = value

    def flush(self) -> asyncio.Future[None]:
        items: list[Item] = []
        for key in self.dirty:
            jobs = self.memory.get(key)
            items.append((key, None if jobs is None else encode_jobs(jobs), 0, None))
        self.dirty.clear()
        return self.world.send(CHANGELOG, items)

    @property
    def owned(self) -> set[int]:
        return {0}

    def partition_items(self, partition: int) -> Iterator[tuple[bytes, ContactJobs]]:
        return iter(self.memory.items())

    def partition_keys(self, partition: int) -> Iterator[bytes]:
        return iter(self.memory)

    # Outbox, Fence, SessionStatus
    def send(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        if self.fenced_at < self.world.operations - 12:
            self.world.unfenced += 1
        return self.world.send(topic, items)

    async def fence(self) -> None:
        self.world.operation()
        self.fenced_at = self.world.operations

    async def not_working(self, ids: Collection[str]) -> set[str]:
        return self.world.asleep & set(ids)

    # Handler
    async def run(self, job: Job, attempt: int, headers: Sequence[Header]) -> Answer:
        world, contact = self.world, f"{job.organization_id}:{job.contact_id}"
        world.calls.append((world.now_ms, job.id, attempt))
        world.running[contact] = world.running.get(contact, 0) + 1
        world.together = max(world.together, world.running[contact])
        try:
            answer = world.engine(job, attempt)
            if isinstance(answer, int | float):
                answer = (answer, Done())
            if isinstance(answer, tuple):
                until: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self.waits.append((world.now_ms + int(answer[0]), until))
                await until
                return answer[1]
            return answer
        finally:
            if contact in world.running:
                world.running[contact] -= 1

    # Life
    async def begin(self) -> None:
        """The partitions are ours."""
        await self.executor.own({0})

    async def read(self) -> None:
        """Read what has arrived in both topics, and commit it as the transport would."""
        for topic, apply in ((CONTROL, self.intake.commands), (JOBS, self.intake.jobs)):
            records = self.world.log[topic][self.position[topic] :]
            if records:
                self.position[topic] += len(records)
                await apply(records, 0)
                await asyncio.sleep(0)  # the transport commits what is durable
                await asyncio.sleep(0)
                if not self.world.pending:
                    self.world.committed[topic] = self.position[topic]

    async def turn(self, times: int = 1) -> None:
        """Read, run cycles until nothing moves, let calls answer."""
        for _ in range(times):
            await self.read()
            for _ in range(50):
                moved = await self.executor.step()
                await asyncio.sleep(0)
                await asyncio.sleep(0)
                if not moved and not self.calls.answers:
                    break

    async def live(self, until_ms: int, step_ms: int = 250) -> None:
        """Let time pass in steps, with turns between."""
        await self.turn()
        while self.world.now_ms < until_ms:
            self.world.pass_time(step_ms)
            for at, future in [wait for wait in self.waits if wait[0] <= self.world.now_ms]:
                self.waits.remove((at, future))
                if not future.done():
                    future.set_result(None)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await self.turn()


def alive(world: World, **more: object) -> Worker:
    """A worker that is about to begin."""
    return Worker(world, **more)


def state_of(worker: Worker, job: Job) -> State | None:
    """Where a job stands in memory."""
    for jobs in worker.memory.values():
        if job.id in jobs.heads:
            return jobs.heads[job.id].state
    return None
