"""The executor's heads, merges and commands as a model: every event in every state, a crash at every step.

One contact has jobs of one conversation and of another. From the start all that can happen is tried in every
state that is reached: records (again, too), starts, every kind of answer, orders, due times, and after each
of these a death of the worker before or after the step's record was durable. What is sent twice by a crash
is sent twice here. Only the pure core runs; the model keeps the topics.
"""

from __future__ import annotations

import inspect
import types
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import msgspec
import pytest

from schemas.codec import decode_job, decode_outcome, encode_job
from schemas.records import Command, Job
from schemas.topic_names import OUTCOMES
from streams import control, transitions
from streams.contact_jobs import ContactJobs, decode_jobs, encode_jobs
from streams.handlers.answers import Answer, Cancelled, Dead, Done, Hold, Retry
from streams.heads import Origin, State
from streams.job_endings import Rules, shrink
from streams.merging import merge
from tests.unit.job_worlds import ORGANIZATION, START_MS, job_of, key_of, uuid

RULES = Rules(kinds=frozenset({"inbound_turn"}))
KEY = key_of(1)
ANSWERS: dict[str, Answer] = {
    "done": Done(), "retry": Retry("http_500"), "later": Retry("http_429", spends=False, kind="rate"),
    "veto": Cancelled("no"), "die": Dead("http_422"), "hold": Hold("no_credentials"),
}  # fmt: skip
ORDERS = ("cancel", "hold", "release", "run_now")


class Broken(AssertionError):
    """A rule does not hold; the text says which, and after what."""


@dataclass(frozen=True, slots=True)
class World:
    """All that outlives a worker, and nothing else: values, so that worlds can be compared."""

    changelog: bytes = b""
    given: tuple[bool, ...] = (False, False, False)
    """Whose record was read once."""
    delayed: frozenset[bytes] = frozenset()
    """Records of jobs in the delay topics, which may come more than once."""
    told: frozenset[tuple[str, int, str]] = frozenset()
    """(job, seq, status) of every outcome that was sent."""
    spent: tuple[tuple[str, int], ...] = ()
    """Job → calls that were begun and not given back; sorted."""
    orders: int = 0
    """Orders that were given."""

    def jobs(self) -> ContactJobs:
        return decode_jobs(self.changelog) if self.changelog else ContactJobs()


@dataclass(slots=True)
class Model:
    """What may happen, with how much of it.

    Args:
        jobs: how many of the three there are; the first two are of one conversation.
        orders: how many orders people give.
        answers: which answers the engine gives.
        attempts: how many a job has.
        aged: heads of jobs that ended are put away before a record or an order comes.
    """

    jobs: int = 2
    orders: int = 1
    answers: tuple[str, ...] = ("done", "retry", "hold")
    attempts: int = 2
    aged: bool = False
    merging: Callable[[ContactJobs, str, int], tuple[str, int]] = merge
    core: types.ModuleType = transitions

    def job(self, number: int) -> Job:
        job = job_of(number + 1, 1, conversation=1 if number < 2 else 2)
        return msgspec.structs.replace(job, max_attempts=self.attempts)

    # -- one step: the jobs it leads to, and whom it has called

    def steps(self, world: World) -> Iterator[tuple[str, World]]:
        """Everything that can happen next, each with the world after it, if its worker lives on."""
        now = START_MS
        for number in range(self.jobs):
            yield f"record {number}", self._record(world, number, encode_job(self.job(number)), now)
        for value in sorted(world.delayed):
            yield "due", self._record(world, -1, value, now)
        jobs = world.jobs()
        running = [job_id for job_id, head in jobs.heads.items() if head.state is State.RUNNING]
        following = jobs.following()
        if following is not None and not running:
            yield "start", self._start(world, following[0], now)
        for job_id in running:
            for name in self.answers:
                jobs = world.jobs()
                self.core.answered(jobs, KEY, job_id, ANSWERS[name], RULES, now)
                free = name in ("hold", "later")
                yield f"answer {name}", self._after(_spent(world, job_id, -1) if free else world, jobs)
            jobs = world.jobs()
            back = jobs.heads[job_id].handed_back < transitions.HANDED_BACK_MOST
            self.core.hand_back(jobs, KEY, job_id, RULES, now)
            yield "hand back", self._after(_spent(world, job_id, -1) if back else world, jobs)
        if world.orders < self.orders:
            for number in range(self.jobs):
                for what in ORDERS:
                    yield f"{what} {number}", self._order(world, number, what, now)

    def died(self, world: World) -> World:
        """The worker is gone, another one takes over: what ran is lost, what stood unsent is sent again."""
        jobs = world.jobs()
        for job_id in [one for one, head in jobs.heads.items() if head.state is State.RUNNING]:
            self.core.lose(jobs, KEY, job_id, RULES, START_MS)
        return self._after(world, jobs)

    def _met(self, world: World) -> ContactJobs:
        """The contact's jobs as what comes from outside meets them."""
        jobs = world.jobs()
        if self.aged:
            shrink(jobs, START_MS * 2)
        return jobs

    def _record(self, world: World, number: int, value: bytes, now: int) -> World:
        jobs = self._met(world)
        job = decode_job(value)
        if number < 0:
            job = msgspec.structs.replace(job, run_after_ms=0)  # its time has come
        self.core.take(jobs, KEY, job, value, Origin("t", 0, 0, now), RULES, now, old=False)
        given = tuple(was or place == number for place, was in enumerate(world.given))
        return self._after(replace(world, given=given), jobs)

    def _start(self, world: World, job_id: str, now: int) -> World:
        jobs = world.jobs()
        job_id, _ = self.merging(jobs, job_id, now)
        self.core.start(jobs, job_id, now)
        return self._after(_spent(world, job_id, 1), jobs)

    def _order(self, world: World, number: int, what: str, now: int) -> World:
        jobs = self._met(world)
        command = Command(
            id=uuid(500 + world.orders), at_ms=now, action=what, job_id=self.job(number).id,
            organization_id=ORGANIZATION,
        )  # fmt: skip
        control.carry_out(jobs, (ORGANIZATION, None), command, RULES, now)
        jobs.commands.clear()  # its id is new each time
        return self._after(replace(world, orders=world.orders + 1), jobs)

    def _after(self, world: World, jobs: ContactJobs) -> World:
        """Durable, then sent: the record is written with what it names, and then that goes out."""
        told, delayed = set(world.told), set(world.delayed)
        lists = [jobs.unsent, *(head.unsent for head in jobs.heads.values())]
        for sends in lists:
            for send in sends:
                if send.topic == OUTCOMES and send.value is not None:
                    outcome = decode_outcome(send.value)
                    if outcome.job is not None and outcome.job_status is not None:
                        told.add((outcome.job.id, outcome.job.seq, outcome.job_status))
                elif send.topic.startswith("dispatch.delay") and send.value is not None:
                    delayed.add(send.value)
            sends.clear()
        jobs.bring_back()
        jobs.next_order = max([head.order for head in jobs.heads.values()], default=0) + 1
        return replace(world, changelog=encode_jobs(jobs), told=frozenset(told), delayed=frozenset(delayed))


def _spent(world: World, job_id: str, more: int) -> World:
    spent = dict(world.spent)
    spent[job_id] = spent.get(job_id, 0) + more
    return replace(world, spent=tuple(sorted(spent.items())))


ENDS = frozenset({"done", "failed", "dead"})


def look(world: World, attempts: int) -> None:
    """The rules of a world whose jobs have so many attempts. Raises Broken."""
    jobs = world.jobs()
    running = [job_id for job_id, head in jobs.heads.items() if head.state is State.RUNNING]
    if len(running) > 1:
        raise Broken("two jobs of a contact run together")
    if any(count > attempts for _, count in world.spent):
        raise Broken(f"more attempts than a job has: {world.spent}")
    seen: dict[tuple[str, int], str] = {}
    for job_id, seq, status in world.told:
        if seen.setdefault((job_id, seq), status) != status:
            raise Broken(f"one seq tells two states: {seq}, {status}, {seen[job_id, seq]}")
    for job_id, head in jobs.heads.items():
        told = {seq: status for (one, seq), status in seen.items() if one == job_id}
        ended = [seq for seq, status in told.items() if status in ENDS]
        if head.state.ended and (not told or told[max(told)] not in ENDS):
            raise Broken(f"it ended as {head.state}, and nobody was told")
        if ended and (max(ended) < max(told) or not head.state.ended):
            raise Broken("what was told to have ended goes on")
        copies = {one.copy for one in map(decode_job, world.delayed) if one.id == job_id}
        if head.state is State.DELAYED and head.copy not in copies:
            raise Broken("it waits for a record that was never sent")


def end(model: Model, world: World) -> None:
    """With a willing engine, a release and time every job that came ends. Raises Broken."""
    for _ in range(40):
        jobs = world.jobs()
        heads = {job_id: head for job_id, head in jobs.heads.items() if head.state is not State.AWAITED}
        if all(head.state.ended for head in heads.values()):
            return
        world = model.died(world)
        jobs = world.jobs()
        for number, (job_id, head) in enumerate(sorted(jobs.heads.items())):
            if head.state is State.HELD:
                command = Command(id=uuid(700 + number), at_ms=START_MS, action="release", job_id=job_id)
                control.carry_out(jobs, (ORGANIZATION, None), command, RULES, START_MS)
        jobs.commands.clear()
        world = model._after(world, jobs)
        for value in world.delayed:
            world = model._record(world, -1, value, START_MS)
        following = world.jobs().following()
        if following is not None:
            world = model._start(world, following[0], START_MS)
            jobs = world.jobs()
            for job_id in [one for one, head in jobs.heads.items() if head.state is State.RUNNING]:
                model.core.answered(jobs, KEY, job_id, Done(), RULES, START_MS)
            world = model._after(world, jobs)
    raise Broken("there is no way to its end")


def walk(model: Model, most: int = 1_000_000) -> int:
    """Look at every world that can be reached; how many there are. Raises Broken, with the way there."""
    ways: dict[World, tuple[str, ...]] = {World(): ()}
    waiting = deque(ways)
    while waiting:
        world = waiting.popleft()
        after = [("dies", model.died(world))]
        for name, then in model.steps(world):
            after += [(name, then), (f"{name}, then dies", model.died(then))]
        for name, then in after:
            if then in ways:
                continue
            ways[then] = (*ways[world], name)
            try:
                look(then, model.attempts)
                end(model, then)
            except Broken as error:
                raise Broken(f"{error}\nafter: {'; '.join(ways[then])}") from None
            waiting.append(then)
        if len(ways) >= most:
            return most
    return len(ways)


@pytest.mark.thorough
def test_two_turns_of_a_conversation_end_whatever_happens_first() -> None:
    assert walk(Model(jobs=2, orders=1, answers=("done", "retry", "hold")), most=1_500) == 1_500


@pytest.mark.thorough
def test_who_is_put_away_comes_back_to_whatever_asks() -> None:
    assert walk(Model(jobs=2, orders=2, answers=("done",), aged=True), most=1_500) == 1_500


@pytest.mark.slow
def test_three_jobs_every_answer_and_two_orders() -> None:
    assert walk(Model(jobs=3, orders=2, answers=tuple(ANSWERS)), most=20_000) == 20_000


MUTANTS = {
    "a start is told under the seq of before": (
        "    head.seq += 1\n    head.started_ms",
        "    head.started_ms",
    ),
    "an older record counts": (" or (head is not None and job.copy < head.copy)", ""),
    "one attempt more": ("if head.attempt >= job.max_attempts:", "if head.attempt > job.max_attempts:"),
    "a delay without its record": (
        "    delay(key, head, wait_ms, answer.code, now_ms, facts=facts, alert=alert)",
        "    head.copy += 1",
    ),
    "who was lost stays so": (
        "    if head.kind == GROUP_LINK:\n        _doubt",
        "    return False\n    if 0:\n        _doubt",
    ),
    "a start spends nothing": ("    head.attempt += 1\n    head.seq", "    head.seq"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("mutant", MUTANTS)
def test_the_walk_is_able_to_fail(mutant: str) -> None:
    before, after = MUTANTS[mutant]
    source = inspect.getsource(transitions)
    assert before in source, "the mutant has nothing to change any more"
    core = types.ModuleType("mutant")
    exec(compile(source.replace(before, after), "mutant", "exec"), core.__dict__)
    with pytest.raises(Broken):
        walk(Model(jobs=1, orders=1, answers=("done", "retry"), attempts=3, core=core), most=1_500)
