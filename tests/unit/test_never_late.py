"""No job before its window, none later than the longest window and the media ceiling, whatever happens.

Through the real collecting, agenda, decision and closing, in skipped time: messages come late and in any
order, files are read soon, late or never, and the worker dies at any step.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.decide import Decision, decide
from streams.media import CEILING_MS
from streams.question import Question
from streams.windows import WindowRule
from tests.unit.asking import FINE, RULES
from tests.unit.builders import uid
from tests.unit.living import work
from tests.unit.test_freeze_protocol import keeps, write
from tests.unit.worlds import Crash, Worker, World

STEP_MS = 250
DOWN_MS = 1_500
"""How long a world's worker is away after a crash."""


@dataclass(frozen=True)
class Happens:
    """After so long a message comes, committed a while ago, perhaps with a file: read later or never."""

    after_ms: int
    contact: str
    late_ms: int
    file_read_after_ms: int | None
    has_file: bool
    crash_in: int | None
    kept: dict[str, int]


def happenings() -> st.SearchStrategy[list[Happens]]:
    one = st.builds(
        Happens,
        after_ms=st.integers(0, 8_000),
        contact=st.sampled_from(["ana", "bia"]),
        late_ms=st.one_of(st.just(0), st.integers(0, 40_000)),
        file_read_after_ms=st.one_of(st.none(), st.integers(0, 200_000)),
        has_file=st.sampled_from([False, False, True]),
        crash_in=st.one_of(st.none(), st.none(), st.none(), st.integers(1, 30)),
        kept=keeps,
    )
    return st.lists(one, min_size=1, max_size=10)


@dataclass
class File:
    """A photo of a conversation; `read_ms` None = never read."""

    conversation_id: str
    created_ms: int
    read_ms: int | None


def with_files(world: World, files: list[File]) -> Callable[[Question], Decision]:
    """Decides as the worker does; all is well but for files that are not read yet."""

    def answer(question: Question) -> Decision:
        unread = [
            one.created_ms
            for one in files
            if one.conversation_id == question.conversation_id
            and one.created_ms <= world.now_ms
            and (one.read_ms is None or one.read_ms > world.now_ms)
        ]
        latest = question.events[-1].message_id
        facts = replace(
            FINE,
            db_now_ms=float(world.now_ms),
            latest_message_id=latest,
            unread_media_created_ms=float(max(unread)) if unread else None,
        )
        return decide(question, facts, RULES)

    return answer


async def live(world: World, script: list[Happens]) -> tuple[dict[str, int], int]:
    """When each event arrived (ms), and how often the worker died."""
    worker, arrived, crashes = Worker(world), {}, 0
    files: list[File] = []
    world.decide = with_files(world, files)

    async def go_on() -> None:
        nonlocal worker, crashes
        try:
            await work(worker)
        except Crash:
            world.die(kept)
            crashes += 1
            worker = Worker(world)

    kept: dict[str, int] = {}
    for number, one in enumerate(script):
        for _ in range(0, one.after_ms, STEP_MS):
            world.now_ms += STEP_MS
            await go_on()
        conversation = f"c of {one.contact}"
        if one.has_file:
            read_ms = None if one.file_read_after_ms is None else world.now_ms + one.file_read_after_ms
            files.append(File(uid(conversation), world.now_ms - one.late_ms, read_ms))
        write(world, f"e{number}", one.contact, conversation, at=world.now_ms - one.late_ms)
        arrived[uid(f"e{number}")] = world.now_ms
        if one.crash_in is not None:
            world.crash_at, kept = world.operations + one.crash_in, one.kept
    while worker.position < len(world.log) or any(one.windows for one in worker.memory.values()):
        world.now_ms += STEP_MS
        await go_on()
        assert world.now_ms < max(arrived.values()) + 1_000_000, "windows stay open"
    await asyncio.sleep(0)
    return arrived, crashes


RULES_OF_WINDOWS = [
    WindowRule(8_000),
    WindowRule(0),
    WindowRule(4_000, "sliding", 30_000),
    WindowRule(8_000, max_events=2),
]


@pytest.mark.thorough
@settings(max_examples=60)
@given(happenings(), st.sampled_from(RULES_OF_WINDOWS))
def test_a_job_comes_after_its_window_and_within_the_longest_wait_and_the_media_ceiling(
    script: list[Happens], rule: WindowRule
) -> None:
    world = World(rule=rule)
    arrived, crashes = asyncio.run(live(world, script))
    times = {uid(f"e{number}"): record.timestamp for number, record in enumerate(world.log)}
    longest_ms = rule.max_wait_ms if rule.mode == "sliding" else rule.length_ms
    slack_ms = STEP_MS + crashes * (DOWN_MS + STEP_MS)
    jobs = {job.id: job for job in world.jobs()}
    assert sorted(one.event_id for job in jobs.values() for one in job.events) == sorted(arrived)
    for job in jobs.values():
        opened_ms = times[job.events[0].event_id]
        if len(job.events) < rule.max_events:
            assert job.created_at_ms >= opened_ms + rule.length_ms, "never early"
        due_ms = opened_ms + longest_ms + CEILING_MS
        last_ms = max(arrived[one.event_id] for one in job.events)
        assert job.created_at_ms <= max(due_ms, last_ms) + slack_ms, "never late"
        for one in job.events:
            assert job.created_at_ms - arrived[one.event_id] <= longest_ms + CEILING_MS + slack_ms
