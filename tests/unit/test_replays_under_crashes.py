"""Replays while the worker dies at any step: what is done stays done, what died may live, nothing is doubled.

A replay publishes records of the log again under its number. Stop 0 is asked as the worker asks it: of what
the sink has written so far.
"""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.records import Outcome
from streams.contact import Contact
from streams.decide import Decision, Emptied, Enqueue, Fail, Stop
from streams.freezing import freeze
from streams.question import Question
from streams.windows import WindowRule, take_in
from tests.unit.builders import event, uid
from tests.unit.test_freeze_protocol import CONTACTS, keeps, write
from tests.unit.worlds import Crash, Worker, World

RUN_MS = 1_764_000_000_000
"""Of the first replay; each further one is a millisecond later, as `rajada.replays` sees to it."""

PLACES = ["c1 of ana", "c2 of ana", "c1 of bia"]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.sampled_from(CONTACTS), st.sampled_from(["c1", "c2"])),
        st.tuples(st.just("pass"), st.integers(0, 6_000)),
        st.tuples(st.just("replay"), st.integers(0, 40), st.integers(1, 6)),
        st.tuples(st.just("again"), st.integers(0, 40)),
        st.tuples(st.just("resume"), st.integers(0, 40)),
        st.tuples(st.just("sink"), st.integers(1, 5)),
        st.tuples(st.just("mood"), st.sampled_from(PLACES), st.sampled_from(["job", "stop", "fail"])),
        st.tuples(st.just("collect"), st.integers(1, 4)),
        st.tuples(st.just("commit")),
        st.tuples(st.just("step")),
        st.tuples(st.just("crash"), st.integers(1, 12), keeps),
    ),
    max_size=40,
)


@dataclass
class Database:
    """What the sink has written: of each event what came of its newest replay, and which jobs name it."""

    newest: dict[str, tuple[int, int, str]] = field(default_factory=dict)
    """Event → (replay, seq, status)."""
    jobs: dict[str, str] = field(default_factory=dict)

    def apply(self, outcome: Outcome) -> None:
        """As the sink does: only what is above the row's (replay, seq), nothing `deduplicated`, and what is
        done stays done (`sink_events.sql`)."""
        if outcome.outcome == "deduplicated":
            return
        for one in outcome.events:
            row = self.newest.get(one.event_id, (0, 0, "pending"))
            stays_done = row[2] == "done" != outcome.status
            if (one.replay, one.seq) > row[:2] and not stays_done:
                self.newest[one.event_id] = (one.replay, one.seq, outcome.status or "pending")
        if outcome.job is not None:
            for member in outcome.job.events:
                self.jobs[member.event_id] = outcome.job.id

    def known(self, event_id: str) -> bool:
        """Stop 0: done in the log, or named by a job. A dead one is not known: a requeue must work."""
        return event_id in self.jobs or self.newest.get(event_id, (0, 0, ""))[2] == "done"


def deciding(database: Database, moods: dict[str, str]) -> Callable[[Question], Decision]:
    """Stop 0, then what each conversation is like: answered, stopped, or failing until it is dead."""

    def decide(question: Question) -> Decision:
        gone = () if question.again else tuple(one for one in question.events if database.known(one.event_id))
        deduplicated = tuple((one.event_id, database.jobs.get(one.event_id)) for one in gone)
        left = [one for one in question.events if one not in gone]
        if not left:
            return Emptied(deduplicated=deduplicated)
        mood = moods.get(question.conversation_id, "job")
        if mood == "stop":
            return Stop("no_published_agent", deduplicated=deduplicated)
        if mood == "fail":
            return Fail("contact_missing", "no such contact", deduplicated=deduplicated)
        return Enqueue(left[-1].event_id, deduplicated=deduplicated)

    return decide


class Story:
    """Plays the steps: log, worker, sink, and who replays."""

    def __init__(self, rule: WindowRule, moods: dict[str, str]) -> None:
        self.database = Database()
        self.moods = moods
        self.world = World(rule=rule, decide=deciding(self.database, moods))
        self.worker = Worker(self.world)
        self.keep: dict[str, int] = {}
        self.names = self.runs = 0
        self.again: set[tuple[str, int]] = set()

    def sink(self, count: int) -> None:
        """Write up to so many further outcomes."""
        outcomes = self.world.outcomes()
        for outcome in outcomes[self.world.written : self.world.written + count]:
            self.database.apply(outcome)
        self.world.written = min(self.world.written + count, len(outcomes))

    def publish(self, place: int, run: int, *, again: bool = False) -> None:
        """Put a record of the log at its end once more, under the number of a run."""
        log = self.world.log
        if not log:
            return
        record = log[place % len(log)]
        kept = [one for one in record.headers if one[0] not in ("replay", "again")]
        marks = [("replay", str(run).encode()), *([("again", b"1")] if again else [])]
        if again:
            self.again.add((json.loads(record.value or b"{}")["id"], run))
        log.append(replace(record, offset=len(log), headers=[*kept, *marks]))

    async def play(self, script: list[tuple]) -> None:
        for step in script:
            try:
                await self._do(*step)
            except Crash:
                self.world.die(self.keep)
                self.worker = Worker(self.world)
        self.world.crash_at = None
        await self._settle()

    async def _do(self, what: str, *arguments) -> None:
        world, worker = self.world, self.worker
        if what == "write":
            contact, conversation = arguments
            write(world, f"e{self.names}", contact, f"{conversation} of {contact}")
            self.names += 1
        elif what == "pass":
            world.now_ms += arguments[0]
        elif what == "sink":
            self.sink(arguments[0])
        elif what == "mood":
            self.moods[uid(arguments[0])] = arguments[1]
        elif what == "replay":
            first, count = arguments
            for place in range(first, first + count):
                self.publish(place, RUN_MS + self.runs)
            self.runs += 1
        elif what == "again":
            self.publish(arguments[0], RUN_MS + self.runs, again=True)
            self.runs += 1
        elif what == "resume":  # a run that was cut off sends some records twice, under the same number
            self.publish(arguments[0], RUN_MS + max(self.runs - 1, 0))
        elif what == "collect":
            await worker.collect(arguments[0])
        elif what == "commit":
            await worker.commit()
        elif what == "step":
            await worker.flusher.step()
        else:
            world.crash_at, self.keep = world.operations + arguments[0], arguments[1]

    async def _settle(self) -> None:
        world, worker = self.world, self.worker
        for _ in range(400):
            await worker.collect(1_000)
            await worker.commit()
            while await worker.flusher.step():
                pass
            await asyncio.sleep(0)
            self.sink(1_000)
            if worker.position == len(world.log) and not any(one.windows for one in worker.memory.values()):
                return
            world.now_ms += 1_000
        raise AssertionError("windows stay open")


moods = st.dictionaries(st.sampled_from(PLACES), st.sampled_from(["stop", "fail"]), max_size=2)


RULES = [WindowRule(8_000), WindowRule(0), WindowRule(4_000, "sliding", 9_000)]


def proves(script: list[tuple], moods: dict[str, str], rule: WindowRule) -> None:
    story = Story(rule, {uid(name): mood for name, mood in moods.items()})
    asyncio.run(story.play(script))
    check(story)


@pytest.mark.thorough
@settings(max_examples=60)
@given(steps, moods, st.sampled_from(RULES))
def test_a_replay_doubles_nothing_and_gives_the_dead_another_life(
    script: list[tuple], moods: dict[str, str], rule: WindowRule
) -> None:
    proves(script, moods, rule)


@pytest.mark.slow
@settings(max_examples=2_000)
@given(steps, moods, st.sampled_from(RULES))
def test_a_replay_doubles_nothing_in_many_more_stories(
    script: list[tuple], moods: dict[str, str], rule: WindowRule
) -> None:
    proves(script, moods, rule)


def check(story: Story) -> None:
    """Every record ends in one way; an event has one job at most, but for those that were asked for again."""
    world = story.world
    content: dict[str, object] = {}
    homes: dict[str, set[str]] = defaultdict(set)
    for job in world.jobs():
        assert content.setdefault(job.id, job) == job, "a job was sent with another content"
        for member in job.events:
            if (member.event_id, member.replay) not in story.again:
                homes[member.event_id].add(job.id)
    for event_id, jobs in homes.items():
        assert len(jobs) == 1, f"{event_id} is in {len(jobs)} jobs"
    ends: dict[tuple[str, int], set[tuple]] = defaultdict(set)
    for outcome in world.outcomes():
        for one in outcome.events:
            if outcome.status != "pending":
                ends[one.event_id, one.replay].add((outcome.status, outcome.outcome, outcome.job_id))
    for identity, told in ends.items():
        assert len(told) == 1, f"{identity} ended in {len(told)} ways: {told}"
    originals = {json.loads(record.value or b"{}")["id"] for record in world.log}
    assert originals == {event_id for event_id, _ in ends}, "every event has an end"
    for event_id, (_, _, status) in story.database.newest.items():
        lives = [told for (name, _), told in ends.items() if name == event_id]
        was_done = any(one[0] == "done" and one[1] != "deduplicated" for told in lives for one in told)
        assert (status == "done") == was_done, "what is done stays done, whatever a later replay came to"
    assert world.sent_without_fence == 0


def test_an_event_asked_for_again_while_it_waits_is_answered_twice_as_asked() -> None:
    """Its two windows have one first event and one deadline; neither may hide the other."""
    story = Story(WindowRule(8_000), {})
    asyncio.run(story.play([("write", "ana", "c1"), ("again", 0), ("collect", 2)]))
    check(story)
    assert len(story.world.jobs()) == 2


def test_a_replay_beside_the_frozen_window_that_stop_0_emptied_has_a_window_of_its_own() -> None:
    contact = Contact("t")
    take_in(contact, event("e0"), WindowRule(8_000), (), 0)
    (first,) = contact.windows
    freeze(b"clinic:ana", first, None, [(uid("e0"), None)], (), 1)
    take_in(contact, event("e0", offset=1, replay=RUN_MS), WindowRule(8_000), (), 2)
    assert len({window.id for window in contact.windows}) == 2


def test_what_is_done_stays_done_beside_an_event_whose_decision_fails() -> None:
    """A replayed event shares its window with a new one: the window's failure is not its own."""
    story = Story(WindowRule(8_000), {})
    first = [("write", "ana", "c1"), ("collect", 1), ("pass", 9_000), ("step",), ("commit",), ("sink", 1)]
    second = [("mood", "c1 of ana", "fail"), ("write", "ana", "c1"), ("replay", 0, 1), ("collect", 2)]
    asyncio.run(story.play([*first, *second]))
    check(story)
    told = [[one.event_id for one in outcome.events] for outcome in story.world.outcomes()]
    assert told == [[uid("e0")], *[[uid("e1")]] * 4, [uid("e0")], [uid("e1")]]
