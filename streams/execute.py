"""Execute: jobs in, calls out, one at a time per contact (spec/jobs.md, "Lanes" and "Job heads").

One cycle at a time, in the order in which a window is closed: the heads are durable before the group is
asked, and the group has confirmed before anything is sent or called. A crash at any step leaves heads that
say what was begun and what is still to be sent.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable

import structlog

from schemas.records import Job
from streams.agenda import Clocks
from streams.calls import Calls
from streams.events import read_marks
from streams.executor_ports import Fence, SessionStatus
from streams.heads import Head, State
from streams.job_book import JobBook, head_of
from streams.job_counting import JobTally
from streams.job_endings import Rules
from streams.merging import merge
from streams.ports import Outbox
from streams.transitions import answered, hand_back, lose, not_working, release_if_gone, session_works, start
from streams.turns import Turn

log = structlog.get_logger(__name__)


class Executor:
    """Runs jobs. `own` and `give_up` follow the partitions; `run` works until `stop`."""

    def __init__(
        self,
        book: JobBook,
        calls: Calls,
        sessions: SessionStatus,
        outbox: Outbox,
        fence: Fence,
        clocks: Clocks,
        rules: Rules,
    ) -> None:
        self._book = book
        self._calls = calls
        self._sessions = sessions
        self._outbox = outbox
        self._fence = fence
        self._clocks = clocks
        self._rules = rules
        self._term = 0
        """Rises whenever the owned partitions change: what was chosen before is void then."""
        self._owning = False
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self.tally = JobTally()

    def wake(self) -> None:
        """Something may be due: a record, a command, an answer."""
        self._wake.set()

    # -- ownership

    async def own(self, partitions: Iterable[int]) -> None:
        """These partitions, all that we own, are recovered: their jobs are ours to run."""
        self._term += 1
        lost = await self._book.rebuild(partitions)
        if self._book.unknown:
            log.warning("jobs_of_a_newer_version", contacts=len(self._book.unknown))
        for key, partition, job_id in lost:
            jobs, now_ms = self._book.jobs(key, partition), self._clocks.wall_ms()
            if lose(jobs, key, job_id, self._rules, now_ms):
                self.tally.lost += 1
                attempt = jobs.heads[job_id].attempt
                log.warning("attempt_lost", job_id=job_id, partition=partition, attempt=attempt)
            elif not release_if_gone(jobs, job_id, self._rules, now_ms):
                continue
            self._book.changed(key, partition, jobs)
        self._owning = True
        self._wake.set()

    async def give_up(self, grace_s: float) -> None:
        """All partitions are going: let calls end for so long, hand the others back, send what is due."""
        if not self._owning:
            return
        self._term += 1
        self._owning = False
        await self._idle.wait()
        await self._calls.settle(grace_s)
        self.hear()
        await self._settle([])
        self._book.clear()

    # -- the loop

    async def run(self) -> None:
        """Work until `stop`; raises what is unexpected, so that the process ends and is restarted."""
        while not self._stopping:
            await self._sleep()
            if self._owning:
                await self.step()

    def stop(self) -> None:
        """End `run` after the cycle that is under way."""
        self._stopping = True
        self._wake.set()

    async def _sleep(self) -> None:
        next_due = self._book.lanes.next_due()
        timeout = None if next_due is None else max(next_due - self._clocks.wall_ms(), 0) / 1000
        if timeout != 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), timeout)
        self._wake.clear()

    async def step(self) -> bool:
        """One cycle: hear answers, choose who starts, make durable, fence, send and call. False: nothing."""
        self._idle.clear()
        try:
            self.hear()
            chosen = self._book.lanes.take(self._clocks.wall_ms(), self._book.paused)
            if not chosen and not self._book.has_unsent:
                return False
            await self._settle(await self._begin(chosen))
            return True
        finally:
            self._idle.set()

    # -- one cycle

    def hear(self) -> None:
        """Apply the answers that have come: before any command is, so that an answer which is there wins."""
        now_ms = self._clocks.wall_ms()
        while self._calls.answers:
            one = self._calls.answers.popleft()
            jobs = self._book.jobs(one.key, one.partition)
            committed_ms = _committed_ms(jobs.heads.get(one.job_id))
            if one.answer is None:
                changed = hand_back(jobs, one.key, one.job_id, self._rules, now_ms)
            else:
                changed = answered(jobs, one.key, one.job_id, one.answer, self._rules, now_ms)
            self._book.lanes.ended(one.key)
            if changed:
                head = jobs.heads[one.job_id]
                self.tally.hear(head, committed_ms, now_ms)
                self._book.changed(one.key, one.partition, jobs)
            else:
                self._book.offer(one.key, one.partition, jobs)

    async def _begin(self, chosen: list[Turn]) -> list[tuple[Turn, Job]]:
        """Lead the chosen jobs to `running`; returns each turn with the job that runs for it."""
        if not chosen:
            return []
        term = self._term
        asleep = await self._sessions.not_working({turn.session_id for turn in chosen if turn.session_id})
        if term != self._term:
            return []
        begun: list[tuple[Turn, Job]] = []
        now_ms = self._clocks.wall_ms()
        for turn in chosen:
            jobs = self._book.jobs(turn.key, turn.partition)
            head = head_of(jobs, turn.job_id, State.WAITING)
            if head is None:  # held, cancelled or run meanwhile
                self._book.lanes.not_started(turn, now_ms)
                self._book.offer(turn.key, turn.partition, jobs)
            elif head.session_id in asleep:
                not_working(jobs, turn.key, turn.job_id, self._rules, now_ms)
                self.tally.session_waits += 1
                self._book.lanes.not_started(turn, now_ms)
                self._book.changed(turn.key, turn.partition, jobs)
            else:
                job_id, merged = merge(jobs, turn.job_id, now_ms)
                self.tally.merged += merged
                session_works(jobs, job_id)
                self.tally.begin(jobs.heads[job_id], now_ms)
                begun.append((turn, start(jobs, job_id, now_ms)))
                self._book.changed(turn.key, turn.partition, jobs)
        return begun

    async def _settle(self, begun: list[tuple[Turn, Job]]) -> None:
        """Durable, fenced, sent and called, forgotten: what the transitions so far have named."""
        parcel = self._book.take_unsent()  # before the flush: what changes while we wait isn't durable yet
        await self._book.durable()
        if not parcel.items and not begun:
            return
        await self._fence.fence()
        self.tally.cycles += 1
        for turn, job in begun:
            self._call(turn, job)
        if parcel.items:
            await asyncio.gather(*(self._outbox.send(topic, items) for topic, items in parcel.items.items()))
            self._book.confirm(parcel)

    def _call(self, turn: Turn, job: Job) -> None:
        jobs = self._book.jobs(turn.key, turn.partition)
        head = head_of(jobs, job.id, State.RUNNING)
        if head is None:  # cancelled between its start and now
            self._book.lanes.not_started(turn, self._clocks.wall_ms())
            self._book.offer(turn.key, turn.partition, jobs)
            return
        headers = list(head.origin.headers) if head.origin is not None else []
        self._calls.begin(turn.key, turn.partition, job, headers)


def _committed_ms(head: Head | None) -> int | None:
    """When the first event of a job that runs was committed, Unix ms: its head forgets that with its end."""
    return read_marks(head.origin.headers).commit_ms if head is not None and head.origin is not None else None
