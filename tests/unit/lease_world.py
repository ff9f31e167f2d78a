"""Two workers, their group's coordinator and one job: all that can happen to who may run it, step by step.

Real are the lease, its answers, the tokens of a changelog and the job's transitions; the order of the steps
is the executor's and the ownership's (read, fence, claim; durable, fence, send). A process that is frozen is
one that takes no step, so every step may be late by any time. What is under way (heartbeats, writes) outlives
its sender or is lost, at any moment.

There are two views, each small enough to be seen whole. With time: who holds the lease; a session ends after
`SESSION` ticks, and no job runs. Without: the job, where a lease is worth nothing (every worker believes in
its own) and a session may end at any moment, so that the fence and the tokens alone must do.

A changelog is told by what every later reader makes of it: its highest token and the value that counts.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

import msgspec

from schemas.codec import decode_job, decode_outcome, encode_job
from schemas.topic_names import OUTCOMES
from streams import transitions
from streams.contact_jobs import ContactJobs, decode_jobs, encode_jobs
from streams.handlers.answers import Done, Retry
from streams.heads import Origin, State
from streams.job_endings import Rules
from streams.transport import lease, token
from tests.unit.job_worlds import START_MS, job_of, key_of

SESSION, OLD = 3, 4
"""Ticks of a session; from `OLD` on an age says nothing more."""
DRAINS = 2
"""Ticks after which a group throws out who doesn't join again."""
ATTEMPTS = 2
OK, ILLEGAL, UNKNOWN, REBALANCING = 0, 22, 25, 27

RULES, KEY = Rules(kinds=frozenset({"inbound_turn"})), key_of(1)
JOB = msgspec.structs.replace(job_of(1), max_attempts=ATTEMPTS)
At = Literal["down", "joining", "idle", "read", "ask", "told", "claiming", "work", "flush", "confirm", "send"]
Call = tuple[int, int]
"""The attempt, and how often one was handed back before: what is handed back may have the same number."""
Write = tuple[bytes, bytes | None]
"""A token, and the value under the job's key; None: a marker."""


class Broken(AssertionError):
    """A rule does not hold; the text says which, and after what."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the coordinator answered, on its way for so many ticks since the question was sent."""

    code: int
    generation: int = 0
    owns: bool = False
    age: int = 0


@dataclass(frozen=True, slots=True)
class Worker:
    """A process; ages in ticks."""

    at: At = "down"
    generation: int = 0
    owns: bool = False
    heard: int = OLD
    """Since the newest answered sign of life was sent."""
    dropped: int = OLD
    """Since the lease was dropped."""
    beat: Reply | None = None
    """A heartbeat, or a join, under way."""
    asked: Reply | None = None
    """The fence under way."""
    moving: bool = False
    """It was told that the group rebalances."""
    token: bytes = b""
    memory: bytes = b""
    dirty: bool = False
    begun: bool = False
    """The step under way begins a call."""
    call: Call | None = None
    writes: tuple[Write, ...] = ()

    def jobs(self) -> ContactJobs:
        return decode_jobs(self.memory) if self.memory else ContactJobs()


@dataclass(frozen=True, slots=True)
class World:
    workers: tuple[Worker, Worker] = (Worker(), Worker())
    seats: tuple[str, str] = ("", "")
    """Of each: no member, `in`, or `joining`."""
    silent: tuple[int, int] = (0, 0)
    """Ticks since the coordinator heard of each."""
    generation: int = 0
    moving: int | None = None
    """Ticks since a rebalance began."""
    overdue: frozenset[int] = frozenset()
    """Who was thrown out since it didn't join in time, whatever its heartbeats said."""
    changelog: tuple[bytes | None, bytes] = (None, b"")
    late: tuple[Write, ...] = ()
    """Writes of dead processes that may still arrive."""
    told: frozenset[tuple[int, str]] = frozenset()
    delayed: frozenset[bytes] = frozenset()
    calls: frozenset[tuple[int, Call]] = frozenset()
    """(worker, call) of every one that began."""
    deaths: int = 0
    forgotten: bool = False


@dataclass(slots=True)
class Protocol:
    """What is explored; the steps that may be left out show what they are good for.

    Args:
        deaths: processes that are killed (who ends by itself isn't counted).
        generations: of the group, at most.
        fenced: the group is asked between a step's write and what it sends.
        durable: a step's write is awaited before the group is asked.
        forgets: the group may be deleted once, and begin anew.
        timed: the view with time, and without the job.
    """

    deaths: int = 1
    generations: int = 3
    fenced: bool = True
    durable: bool = True
    forgets: bool = False
    timed: bool = False
    answers: tuple[str, ...] = ("done", "retry")
    lease: types.ModuleType = field(default=lease)
    token: types.ModuleType = field(default=token)
    core: types.ModuleType = field(default=transitions)

    # -- what happens next

    def steps(self, world: World, alive: tuple[int, ...] = (0, 1)) -> Iterator[tuple[str, World]]:
        """Each event with the world after it; of the workers only `alive` do anything."""
        for one in alive:
            for name, then in self._steps_of(world, one):
                yield f"{one} {name}", then
        if "joining" in world.seats and "in" not in world.seats:
            for owner in (0, 1):
                if world.seats[owner] == "joining":
                    yield f"the group gives it to {owner}", _complete(world, owner)
        if not self.timed or (world.moving is not None and world.moving >= DRAINS):
            for one in (0, 1):
                if world.seats[one] == "in" and (self.timed or world.generation < self.generations):
                    out = _expelled(world, one)
                    yield f"{one} is thrown out", replace(out, overdue=world.overdue | {one})
        if world.late:
            yield "a late write arrives", replace(self._written(world, world.late[0]), late=world.late[1:])
            yield "a late write is lost", replace(world, late=world.late[1:])
        if self.forgets and not world.forgotten and world.seats == ("", "") and world.generation:
            yield "the group is forgotten", replace(world, generation=0, forgotten=True)
        if self.timed:
            yield "tick", self._tick(world)

    def _steps_of(self, world: World, one: int) -> Iterator[tuple[str, World]]:
        worker = world.workers[one]
        if worker.at == "down":
            if not world.seats[one] and world.generation < self.generations:
                yield "joins", _joined(world, one, Worker("joining"))
            return
        if world.deaths < self.deaths:
            yield "dies", replace(_ended(world, one), deaths=world.deaths + 1)
        if worker.beat is not None:
            yield "hears", self._heard(world, one)
        elif not self.timed and worker.at != "joining":
            code = code_for(world, one)
            if code != OK and not (worker.moving and code == REBALANCING):
                yield "is told", self._heard(_put(world, one, replace(worker, beat=Reply(code))), one)
        elif worker.at != "joining" and not worker.moving:
            sent = replace(worker, beat=Reply(code_for(world, one)))
            yield "beats", _put(_seen(world, one), one, sent)
        if worker.writes:
            then = _put(world, one, replace(worker, writes=worker.writes[1:]))
            yield "its write arrives", self._written(then, worker.writes[0])
        yield from self._work(world, one, worker)

    def _work(self, world: World, one: int, worker: Worker) -> Iterator[tuple[str, World]]:
        """The main loop's next step."""
        settled = not worker.writes
        early = worker.at in ("idle", "read", "ask", "told") or (worker.at == "claiming" and settled)
        if worker.moving and early:
            yield "joins again", _joined(world, one, _leaving(worker))
            return
        match worker.at:
            case "read":
                highest, value = world.changelog
                read = replace(worker, at="ask", memory=value, token=highest or b"")
                yield "reads", _put(world, one, read)
            case "ask":
                asked = replace(worker, at="told", asked=Reply(code_for(world, one)))
                yield "asks to claim", _put(_seen(world, one), one, asked)
            case "told":
                yield "claims", self._claim(world, one, worker)
            case "claiming" if settled:
                yield "owns", self._own(world, one, worker)
            case "work":
                yield from self._idle(world, one, worker)
            case "flush" if settled or not self.durable:
                if self.fenced:
                    asked = replace(worker, at="confirm", asked=Reply(code_for(world, one)))
                    yield "asks", _put(_seen(world, one), one, asked)
                else:
                    yield "asks nobody", _put(world, one, replace(worker, at="send"))
            case "confirm":
                assert worker.asked is not None
                sure = self.lease.confirms(worker.asked.code)
                sends = _put(world, one, replace(worker, at="send", asked=None))
                yield "was told", sends if sure else _ended(world, one)
            case "send":
                yield "sends", self._send(world, one, worker)

    def _idle(self, world: World, one: int, worker: Worker) -> Iterator[tuple[str, World]]:
        """Between two steps: records, answers, the next step, or the way out."""
        jobs = worker.jobs()
        head = jobs.heads.get(JOB.id)
        if self.timed:
            pass
        elif worker.call is not None:
            for name in self.answers:
                answer = Done() if name == "done" else Retry("http_500")
                self.core.answered(jobs := worker.jobs(), KEY, JOB.id, answer, RULES, START_MS)
                yield f"answer {name}", _put(world, one, _changed(replace(worker, call=None), jobs))
        elif head is None or head.state is State.DELAYED:
            for value in [encode_job(JOB)] if head is None else sorted(world.delayed):
                jobs = worker.jobs()
                job = msgspec.structs.replace(decode_job(value), run_after_ms=0)
                origin = Origin("t", 0, 0, START_MS)
                if self.core.take(jobs, KEY, job, value, origin, RULES, START_MS, old=False) is not None:
                    yield "record", _put(world, one, _changed(worker, jobs))
        starts = head is not None and head.state is State.WAITING and not worker.moving
        if worker.moving and worker.call is not None:
            self.core.hand_back(jobs := worker.jobs(), KEY, JOB.id, RULES, START_MS)
            yield "hands back", self._flush(world, one, _changed(replace(worker, call=None), jobs))
        elif worker.dirty or starts:
            if starts:
                self.core.start(jobs := worker.jobs(), JOB.id, START_MS)
                worker = _changed(replace(worker, begun=True), jobs)
            yield "steps", self._flush(world, one, worker)
        elif worker.moving and not worker.writes:
            yield "joins again", _joined(world, one, _leaving(worker))

    # -- the lease's part

    def held(self, worker: Worker) -> bool:
        """Whether a worker takes the partition for its own."""
        return worker.owns and (not self.timed or self._lease(worker).held())

    def _lease(self, worker: Worker) -> lease.Lease:
        made = self.lease.Lease(SESSION)
        made._sent_at = -float(worker.heard) if worker.heard < OLD else float("-inf")
        made._not_before = -float(worker.dropped) if worker.dropped < OLD else float("-inf")
        return made

    def _heard(self, world: World, one: int) -> World:
        worker = world.workers[one]
        reply, held = worker.beat, self._lease(worker)
        assert reply is not None
        if reply.generation:  # of a join
            held.renew(-float(reply.age))
            worker = replace(
                worker, at="read" if reply.owns else "idle", generation=reply.generation, owns=reply.owns
            )
        else:
            held.heard(reply.code, -float(reply.age))
        if reply.code in (ILLEGAL, UNKNOWN):
            return _ended(world, one)  # its drain meets a lost lease
        if not self.timed:
            return _put(world, one, replace(worker, beat=None, moving=worker.moving or bool(reply.code)))
        heard, dropped = (
            int(min(OLD, -sent)) if sent > float("-inf") else OLD
            for sent in (held._sent_at, held._not_before)
        )
        moving = worker.moving or reply.code == REBALANCING
        return _put(world, one, replace(worker, beat=None, heard=heard, dropped=dropped, moving=moving))

    def _claim(self, world: World, one: int, worker: Worker) -> World:
        assert worker.asked is not None
        if not self.lease.confirms(worker.asked.code) or not self.held(worker):
            return _ended(world, one)
        made = self.token.succeed(worker.token or None, worker.generation).encode()
        claiming = replace(worker, at="claiming", asked=None, token=made, writes=((made, None),))
        return _put(world, one, claiming)

    def _own(self, world: World, one: int, worker: Worker) -> World:
        jobs = worker.jobs()
        lost = self.core.lose(jobs, KEY, JOB.id, RULES, START_MS)
        head = jobs.heads.get(JOB.id)
        unsent = bool(head and head.unsent)
        worker = replace(worker, at="work", memory=_bytes(jobs), dirty=lost or unsent)
        return _put(world, one, worker)

    def _flush(self, world: World, one: int, worker: Worker) -> World:
        if not self.held(worker):
            return _ended(world, one)  # LeaseLost
        writes = (*worker.writes, (worker.token, worker.memory))
        return _put(world, one, replace(worker, at="flush", dirty=False, writes=writes))

    def _send(self, world: World, one: int, worker: Worker) -> World:
        jobs = worker.jobs()
        head = jobs.heads[JOB.id]
        told, delayed = set(world.told), set(world.delayed)
        for send in head.unsent:
            if send.topic == OUTCOMES and send.value is not None:
                outcome = decode_outcome(send.value)
                assert outcome.job is not None
                told.add((outcome.job.seq, str(outcome.job_status)))
            elif send.topic.startswith("dispatch.delay") and send.value is not None:
                delayed.add(send.value)
        head.unsent.clear()
        call = (head.attempt, head.handed_back) if worker.begun else None
        calls = world.calls | {(one, call)} if call else world.calls
        if call and any(begun == call for _, begun in world.calls):
            raise Broken(f"attempt {call[0]} was begun twice")
        world = replace(world, told=frozenset(told), delayed=frozenset(delayed), calls=calls)
        worker = replace(worker, at="work", memory=_bytes(jobs), begun=False, call=call or worker.call)
        if not self.held(worker):
            return _ended(_put(world, one, worker), one)  # what was sent is forgotten by the next owner
        writes = (*worker.writes, (worker.token, worker.memory))
        return _put(world, one, replace(worker, writes=writes))

    def _written(self, world: World, write: Write) -> World:
        """A write reaches the changelog's end, where every reader meets it."""
        highest, value = world.changelog
        reader = self.token.Reader()
        reader.highest = highest
        counts = reader.accepts([(token.HEADER, write[0])])
        if counts and highest is not None and write[0] < highest:
            raise Broken("a write of a replaced worker counts behind its successor's marker")
        taken = write[1] if counts and write[1] is not None else value
        return replace(world, changelog=(reader.highest, taken))

    # -- time

    def _tick(self, world: World) -> World:
        workers = tuple(_older(worker) for worker in world.workers)
        silent = tuple(min(OLD, age + 1) for age in world.silent)
        moving = None if world.moving is None else min(DRAINS, world.moving + 1)
        world = replace(world, workers=workers, silent=silent, moving=moving)
        for one in (0, 1):
            if world.seats[one] == "in" and world.silent[one] >= SESSION:
                world = _expelled(world, one)
        return world


def code_for(world: World, one: int) -> int:
    """What the coordinator answers to a heartbeat of a worker."""
    if world.seats[one] != "in":
        return UNKNOWN
    if world.workers[one].generation != world.generation:
        return ILLEGAL
    return OK if world.moving is None else REBALANCING


def _put(world: World, one: int, worker: Worker) -> World:
    first, second = world.workers
    return replace(world, workers=(worker, second) if one == 0 else (first, worker))


def _seat(world: World, one: int, seat: str) -> World:
    first, second = world.seats
    return replace(world, seats=(seat, second) if one == 0 else (first, seat))


def _seen(world: World, one: int) -> World:
    """Whoever is known to the coordinator begins a session anew by asking it anything."""
    if code_for(world, one) not in (OK, REBALANCING):
        return world
    first, second = world.silent
    return replace(world, silent=(0, second) if one == 0 else (first, 0))


def _older(worker: Worker) -> Worker:
    def later(reply: Reply | None) -> Reply | None:
        return None if reply is None else replace(reply, age=min(OLD, reply.age + 1))

    heard, dropped = min(OLD, worker.heard + 1), min(OLD, worker.dropped + 1)
    return replace(worker, heard=heard, dropped=dropped, beat=later(worker.beat))


def _joined(world: World, one: int, worker: Worker) -> World:
    world = _seat(_put(world, one, worker), one, "joining")
    if world.moving is None and "in" in world.seats:
        world = replace(world, moving=0)
    return replace(world, overdue=world.overdue - {one})


def _leaving(worker: Worker) -> Worker:
    return Worker("joining", heard=worker.heard, dropped=worker.dropped)


def _complete(world: World, owner: int) -> World:
    """All have joined: a new generation, and each is told what is its own."""
    generation = world.generation + 1
    for one in (0, 1):
        if world.seats[one] == "joining":
            world = _seat(world, one, "in")
            if world.workers[one].at == "joining":
                reply = Reply(OK, generation, one == owner)
                world = _put(world, one, replace(world.workers[one], beat=reply))
    return replace(world, generation=generation, moving=None, silent=(0, 0))


def _expelled(world: World, one: int) -> World:
    world = _seat(world, one, "")
    if world.moving is None and "in" in world.seats:
        return replace(world, moving=0)
    return world if set(world.seats) != {""} else replace(world, moving=None)


def _ended(world: World, one: int) -> World:
    """A process ends: its seat stays until its session is over, its writes may still arrive."""
    late = world.late + world.workers[one].writes
    return replace(_put(world, one, Worker()), late=late[:3], overdue=world.overdue - {one})


def _changed(worker: Worker, jobs: ContactJobs) -> Worker:
    return replace(worker, memory=_bytes(jobs), dirty=True)


def _bytes(jobs: ContactJobs) -> bytes:
    jobs.next_order = 2
    return encode_jobs(jobs)
