"""The cycle of the forwarder: read, hold, and forward what may leave, a batch a transaction (pure).

A batch's records and the offsets behind them are committed together or not at all. Until they are, the
records stay in their queues: after an aborted transaction the same batch is simply made again. When it can't
be known whether a transaction was committed, the whole session ends, and the next one begins where the
group's committed offsets are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, Protocol

from schemas import alert_texts
from schemas.topic_names import DEAD, PARKING
from settings import Language, RajadaError
from streams.delays.lateness import Tally
from streams.delays.plan import Trouble, sends_of
from streams.delays.queues import Held, Mark, Queues
from streams.delays.records import End, Place, Record, Send
from streams.delays.told import tell_wait
from streams.due import DELAY_TOPICS
from telemetry.tracing import traces

BATCH_RECORDS: Final = 1_000
BATCH_BYTES: Final = 8 * 1024 * 1024
"""Of one transaction at most; a single record may be larger."""
PACE_S: Final = 0.025
"""From the beginning of one transaction to the next: what becomes due meanwhile goes together."""
IDLE_S: Final = 0.2
"""How long a quiet cycle waits for a record: also how long a stop takes to be seen."""
ENDS_EVERY_S: Final = 5.0
"""How often the ends of quiet partitions are committed."""
FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 2.0
"""Between an aborted transaction and the next try, doubling."""


class Undone(RajadaError):
    """The transaction was aborted: nothing of it was written, and it may be made again."""


class Refused(Undone):
    """Aborted, because a topic doesn't take some of the records; `sends` are their places in the batch."""

    def __init__(self, sends: Collection[int]) -> None:
        super().__init__("A topic refuses records as they are; they go to the dead letters.")
        self.sends = frozenset(sends)


class SessionOver(RajadaError):
    """Nobody can tell what became of the transaction, or the client is of no use any more: begin anew."""


class Intake(Protocol):
    """The group's consumer."""

    def take(self, wait_s: float) -> Iterable[Record | End]:
        """Wait so long for a first record, then whatever else is here. Raises SessionOver."""

    def flow(self, pause: Sequence[Place], go_on: Sequence[Place]) -> None:
        """Stop reading these partitions; go on reading those."""


class Outlet(Protocol):
    """The transactional producer."""

    def forward(self, sends: Sequence[Send], offsets: Mapping[Place, int], now_ms: int) -> None:
        """Write all of it and commit the offsets, in one transaction. Raises Refused, Undone, SessionOver.

        `now_ms`: the records' own timestamp where their topic takes one.
        """


class Clock(Protocol):
    """Kafka's clock, and ours for lengths of time."""

    def now_ms(self) -> float:
        """A moment that has passed on Kafka's clock, Unix ms."""

    def monotonic_s(self) -> float:
        """Seconds of a clock that is never set."""


class Forwarder:
    """One session's cycle. `trouble` outlasts the session: what a topic has refused stays known."""

    def __init__(
        self,
        queues: Queues,
        intake: Intake,
        outlet: Outlet,
        clock: Clock,
        tally: Tally,
        trouble: dict[Mark, Trouble],
        language: Language = alert_texts.DEFAULT,
    ) -> None:
        self._queues = queues
        self._intake = intake
        self._outlet = outlet
        self._clock = clock
        self._tally = tally
        self._trouble = trouble
        self._language = language
        self._not_before_s = 0.0
        self._wait_s = FIRST_WAIT_S
        self._ends_at_s = 0.0
        self._words: list[Send] = []
        self.undone: str | None = None
        """Why the last transaction was aborted; None when it was not."""

    def tell(self, word: Send) -> None:
        """Send this, too, with the next transaction."""
        self._words.append(word)

    def step(self) -> None:
        """Wait for the next thing to do, and do it. Raises SessionOver."""
        for came in self._intake.take(self._until_next()):
            if isinstance(came, Record):
                self._queues.add(came, self._clock.now_ms())
            else:
                self._queues.reached_end(came.place, came.offset)
        self._intake.flow(*self._queues.flow())
        began_s = self._clock.monotonic_s()
        if began_s < self._not_before_s:
            return
        now_ms = self._clock.now_ms()
        batch = self._queues.ready(now_ms, BATCH_RECORDS, BATCH_BYTES, self._trouble)
        offsets = self._queues.offsets_after(batch)
        if began_s >= self._ends_at_s:
            self._ends_at_s = began_s + ENDS_EVERY_S
            offsets |= self._queues.ends()
        if offsets or self._words:
            self._not_before_s = began_s + PACE_S
            self._forward(batch, offsets, now_ms)

    def _until_next(self) -> float:
        """Seconds until something may leave, at most IDLE_S."""
        leaves_ms = self._queues.next_leaves_ms()
        if leaves_ms is None:
            return IDLE_S
        due_s = max(0.0, leaves_ms - self._clock.now_ms()) / 1000
        return min(max(due_s, self._not_before_s - self._clock.monotonic_s(), 0.0), IDLE_S)

    def _forward(self, batch: Sequence[Held], offsets: Mapping[Place, int], now_ms: float) -> None:
        plan: list[tuple[Held | None, Send]] = [
            (held, send)
            for held in batch
            for send in sends_of(held, now_ms, self._trouble.get(held.mark, Trouble.NONE), self._language)
        ]
        plan += [(None, word) for word in self._words]
        try:
            self._outlet.forward([send for _, send in plan], offsets, int(now_ms))
        except Undone as undone:
            self._put_off(undone)
            if isinstance(undone, Refused):
                refused = [held for n in sorted(undone.sends) if (held := plan[n][0]) is not None]
                self._suspect(refused, len(batch))
        else:
            self._wait_s, self.undone = FIRST_WAIT_S, None
            self._queues.left(batch)
            self._queues.committed(offsets)
            self._words.clear()
            self._count([(held, send) for held, send in plan if held is not None])

    def _put_off(self, undone: Undone) -> None:
        self._tally.undone += 1
        self.undone = str(undone)
        self._not_before_s = self._clock.monotonic_s() + self._wait_s
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)

    def _suspect(self, refused: Sequence[Held], together: int) -> None:
        """A topic refuses a whole request for one record in it: who is to blame shows when tried alone."""
        for held in refused:
            known = self._trouble.get(held.mark, Trouble.NONE)
            if known is Trouble.NONE and together == 1:
                known = Trouble.SUSPECT
            self._trouble[held.mark] = Trouble(min(known + 1, Trouble.UNBURIABLE))

    def _count(self, plan: Sequence[tuple[Held, Send]]) -> None:
        now_ms, at_s = self._clock.now_ms(), self._clock.monotonic_s()
        dead = {held.mark for held, send in plan if send.topic in (DEAD, PARKING)}
        self._tally.dead += len(dead)
        for held, send in plan:
            if self._trouble:
                self._trouble.pop(held.mark, None)
            if held.mark in dead:
                continue
            self._tally.forwarded += 1
            if traces().on:
                tell_wait(held.record, int(now_ms))
            if send.topic not in DELAY_TOPICS and held.due_ms is not None:
                self._tally.due += 1
                self._tally.lateness.add(now_ms - held.due_ms, at_s)
                self._tally.late.observe((now_ms - held.due_ms) / 1000)
