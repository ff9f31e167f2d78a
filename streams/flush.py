"""Flush: take what is due, decide, freeze, fence, send, drop (spec/dispatch.md, steps 3, 4 and 6).

One cycle at a time. Its order is the whole point: a decision is in the changelog before anything is sent
for it, and nothing is sent before the group confirmed that the partitions are still ours. A crash at any
step leaves either an undecided window, which is decided again, or a frozen one, which is sent again as it
stands.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Container, Iterable
from typing import Final

import structlog

from schemas.codec import encode_job, encode_outcome
from schemas.records import RunBy
from settings import Language
from streams import topics
from streams.agenda import Agenda, Clocks, Due
from streams.asking import question_of
from streams.burial import graves
from streams.claims import Claims
from streams.closing import retry_outcome, sent_of
from streams.contact import Window, WindowName
from streams.counting import Tally
from streams.decide import Decision, Enqueue, Fail, LookAgain, WaitForMedia
from streams.events import COMMIT_TIME
from streams.freezing import apply_decision
from streams.just_made import JustMade
from streams.ports import Contacts, Decider, Item, Outbox, Source, Undertaker
from streams.question import DatabaseAway, Question
from streams.windows import drop, prune
from telemetry.tracing import traces

log = structlog.get_logger(__name__)

HELD_LOOK_S: Final = 0.02
"""How often windows are looked at that are due by the clock but wait for the log."""
LONGEST_BACKOFF_S: Final = 30.0
CLAIMED_LOOK_S: Final = 1.0
"""How soon a window is looked at again one of whose event ids another contact just had: then the sink has
told the database, and the decision says so."""


class Flusher:
    """Closes windows. `own` and `give_up` follow the partitions; `run` works until `stop`."""

    def __init__(
        self,
        contacts: Contacts,
        decider: Decider,
        undertaker: Undertaker,
        outbox: Outbox,
        source: Source,
        clocks: Clocks,
        *,
        retry_delay_ms: int,
        max_wait_ms: int,
        run_by: RunBy = "lanes",
        language: Language = "pt-BR",
        written_below: Callable[[int], int],
        on_state: Callable[[str | None], None],
        just_made: JustMade | None = None,
    ) -> None:
        self._contacts = contacts
        self._decider = decider
        self._undertaker = undertaker
        self._outbox = outbox
        self._source = source
        self._clocks = clocks
        self._retry_delay_ms = retry_delay_ms
        self._max_wait_ms = max_wait_ms
        self._run_by = run_by
        self._language = language
        self._written_below = written_below
        self._on_state = on_state
        self._agenda = Agenda(contacts, source, clocks, written_below)
        self._claims = Claims()
        self._just_made = just_made or JustMade()
        self._term = 0
        """Rises whenever the owned partitions change: what was read before is void then."""
        self._backoff_s = 0.0
        self._deciding: asyncio.Future[list[Decision]] | None = None
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self.tally = Tally()

    @property
    def taken(self) -> Container[WindowName]:
        """Ids of windows that are being decided: they take no more events."""
        return self._agenda.taken

    # -- what the collector tells

    def on_window(self, key: bytes, partition: int, window: Window) -> None:
        """A window opened, or filled up."""
        if len(window.events) == 1:
            self.tally.opened += 1
        self._agenda.schedule(key, partition, window)
        self._wake.set()

    def on_progress(self, partition: int, newest_event_ms: int) -> None:
        """Records of a partition were applied, the newest of this event time (ms)."""
        if self._agenda.applied(partition, newest_event_ms):
            self._wake.set()

    def newest_ms(self, partition: int) -> int:
        """Latest event time (ms) applied from a partition since we own it; 0 = none."""
        return self._agenda.newest_ms(partition)

    # -- ownership
    def own(self, partitions: Iterable[int]) -> None:
        """These partitions, all that we own, are recovered: their windows are ours to close."""
        self._term += 1
        self._claims.clear()
        self.tally.own(self._agenda.rebuild(partitions))
        self._wake.set()

    async def give_up(self) -> None:
        """All partitions are going: finish the cycle that is under way, begin no other."""
        self._term += 1
        self._agenda.rebuild(())
        if self._deciding is not None:
            self._deciding.cancel()  # a slow database must not hold up a rebalance; nothing was written yet
        await self._idle.wait()
        self.tally.give_up()

    # -- the loop
    async def run(self) -> None:
        """Work until `stop`; raises what is unexpected, so that the process ends and is restarted."""
        while not self._stopping:
            await self._sleep()
            await self.step()

    async def step(self) -> bool:
        """Close what is due now, in one cycle; False when nothing was."""
        due = self._agenda.take()
        if not due:
            return False
        self._idle.clear()
        try:
            await self._cycle(due)
        finally:
            self._agenda.release()
            self._idle.set()
        return True

    def stop(self) -> None:
        """End `run` after the cycle that is under way."""
        self._stopping = True
        self._wake.set()

    async def _sleep(self) -> None:
        next_due = self._agenda.next_due()
        timeout = None if next_due is None else max(next_due - self._clocks.monotonic(), 0)
        if self._agenda.holds():
            timeout = HELD_LOOK_S if timeout is None else min(timeout, HELD_LOOK_S)
        if timeout != 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._wake.wait(), timeout)
        self._wake.clear()

    # -- one cycle

    async def _cycle(self, due: list[Due]) -> None:
        term = self._term
        undecided = [one for one in due if one.window.state != "frozen"]
        if undecided:
            try:
                decisions = await self._decide(undecided)
            except DatabaseAway as error:
                self._wait_for_database(undecided, term, error)
                undecided, decisions = [], []
            else:
                self._database_answered()
            if term != self._term or decisions is None:
                return
            undecided = self._apply(undecided, decisions)
        self.tally.cycles += 1
        frozen = [one for one in due if one.window.state == "frozen"]
        retried = [one for one in undecided if one.window.state == "retry"]
        if undecided:
            await self._contacts.flush()
        if frozen or retried:
            await self._source.fence()
            await self._send(frozen, retried)
        for one in undecided if term == self._term else ():
            if one.window.state in ("media", "retry"):
                self._agenda.schedule(one.key, one.partition, one.window)

    async def _decide(self, undecided: list[Due]) -> list[Decision] | None:
        """The decisions; None when the partitions went meanwhile: the next owner asks anew."""
        self.tally.begin([one.window for one in undecided], self._clocks.wall_ms())
        asked = self._decider.decide([self._question(one) for one in undecided])
        self._deciding = asyncio.ensure_future(asked)
        try:
            await asyncio.wait([self._deciding])
            return None if self._deciding.cancelled() else self._deciding.result()
        finally:
            self._deciding.cancel()
            self._deciding = None

    def _question(self, due: Due) -> Question:
        return question_of(
            due.key,
            due.window,
            now_ms=self._clocks.wall_ms(),
            superseded_since_ms=due.contact.superseded.get(due.window.conversation_id),
            max_wait_ms=self._max_wait_ms,
        )

    def _apply(self, undecided: list[Due], decisions: list[Decision]) -> list[Due]:
        """Write decisions into their contacts; returns whose window changed, the others are put back."""
        changed, now_ms = [], self._clocks.wall_ms()
        for due, decision in zip(undecided, decisions, strict=True):
            key, window = due.key, due.window
            if isinstance(decision, LookAgain):
                self._agenda.put_back([due], decision.in_ms / 1000)
                continue
            if isinstance(decision, Enqueue) and not self._claim(due, decision):
                log.warning("event_id_used_twice", **due.named())
                self._agenda.put_back([due], CLAIMED_LOOK_S)
                continue
            due.known = decision.deduplicated
            apply_decision(
                key, due.contact, window, decision, now_ms, retry_ms=self._retry_delay_ms, run_by=self._run_by
            )
            if isinstance(decision, WaitForMedia):
                self.tally.media_waits += 1
            elif isinstance(decision, Fail):
                self.tally.failures += 1
                died = window.state == "frozen"
                log.warning("decision_failed", error=decision.error_class, dead=died, **due.named())
            self._contacts.put(key, due.contact, due.partition)
            changed.append(due)
        return changed

    def _claim(self, due: Due, decision: Enqueue) -> bool:
        """Whether no other contact has one of the window's ids; they are this one's from now on."""
        gone = {event_id for event_id, _ in decision.deduplicated}
        left = [member.event_id for member in due.window.events if member.event_id not in gone]
        if self._claims.of_others(due.key, left):
            return False
        self._claims.note(due.key, due.partition, left)
        return True

    async def _send(self, frozen: list[Due], retried: list[Due]) -> None:
        """Send what frozen windows hold, wait until it is durable, forget the windows."""
        jobs: list[Item] = []
        outcomes: list[Item] = []
        letters: list[Item] = []
        now_ms = self._clocks.wall_ms()
        for one in frozen:
            sent = sent_of(one.key, one.window, self._language)
            job, trace = None, None
            if sent.job is not None:
                job = encode_job(sent.job)
                self._just_made.note(job, sent.job)
                # whoever runs it tells how fresh the answer is
                committed = (COMMIT_TIME, b"%d" % one.window.events[0].time_ms)
                trace = traces().stamp(sent.job.id)
                headers = [committed, *(trace or ())]
                jobs.append((one.key, job, one.partition, headers))
            outcomes += [(one.key, encode_outcome(told, job), one.partition, trace) for told in sent.outcomes]
            if sent.dead:
                letters += await self._undertaker.letters(one.key, one.partition, one.window)
        for one in retried:
            outcome = retry_outcome(one.key, one.window, one.known, now_ms)
            if outcome is not None:
                outcomes.append((one.key, encode_outcome(outcome), one.partition, None))
        sends: list[Awaitable[dict[int, int]]] = []
        sends += [self._outbox.send(topic, buried) for topic, buried in graves(letters).items()]
        if jobs:
            sends.append(self._outbox.send(topics.JOBS, jobs))
        highest, *_ = await asyncio.gather(self._outbox.send(topics.OUTCOMES, outcomes), *sends)
        for one in frozen:
            told_at = highest.get(one.partition, -1)
            if one.window.frozen is not None and one.window.frozen.job_id is not None:
                ids = [member.event_id for member in one.window.events]
                self._claims.note(one.key, one.partition, ids, told_at)
            drop(one.contact, one.window, told_at, now_ms)
            self.tally.close(one.window, self._clocks.wall_ms())
            prune(one.contact, self._written_below(one.partition), now_ms)
            self._contacts.put(one.key, one.contact, one.partition)
        if frozen:
            self._contacts.flush()
        self._claims.forget_written(self._written_below)

    # -- the database away

    def _wait_for_database(self, waiting: list[Due], term: int, error: DatabaseAway) -> None:
        """No attempt is spent while the database is away: everything waits, longer each time."""
        self._backoff_s = min(max(self._backoff_s * 2, 1.0), LONGEST_BACKOFF_S)
        self.tally.away += 1
        log.error("database_away", error=str(error), windows=len(waiting), next_try_s=self._backoff_s)
        self._on_state(f"waits for Postgres: {error}")
        if term == self._term:
            self._agenda.put_back(waiting, self._backoff_s)

    def _database_answered(self) -> None:
        if self._backoff_s:
            self._backoff_s = 0.0
            log.info("database_back")
            self._on_state(None)
