"""The sink: `dispatch.outcomes` becomes the state of events and jobs in Postgres (spec/dispatch.md, step 7).

One loop: take what is there, write it in one transaction with its offsets, take again. While Postgres writes
one batch, the next is taken and decoded; one transaction is under way at a time. Whatever goes wrong, the way
back is the same: forget the batches, read the positions from Postgres, go on from there.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Final, Literal

import structlog

import status
from schemas.records import Outcome
from schemas.topic_names import OUTCOMES, SINK_GROUP
from settings import Language, Settings
from sinks.batch import Batch, End, Record, Taken, batch_of
from sinks.counting import Meter
from sinks.failures import PositionMoved, PostgresAway, Refused, Unavailable
from sinks.group_link_care import GroupLinkCare
from sinks.intake import Intake
from sinks.letters import Dead, Graveyard, Later, dead_outcome
from sinks.outage import Outage, database_was_away
from sinks.passes import Passes
from sinks.reading import read
from sinks.spans import tell_written
from sinks.writer import Writer
from telemetry import pulse, tracing
from telemetry.serving import serve

log = structlog.get_logger(__name__)

GROUP: Final = SINK_GROUP
NAME: Final = "sink"
"""The process' name in `rajada status`."""

BATCH: Final = 2_000
"""Records of one transaction at most."""
POLL_S: Final = 0.2
"""How long a quiet loop waits for a record: also how long a stop takes to be seen."""
FIRST_WAIT_S: Final = 0.1
LONGEST_WAIT_S: Final = 5.0
SETTLE_S: Final = 2.0
SWITCH_S: Final = 0.001
"""For how long the thread that decodes may keep the one that writes waiting when Postgres has answered; with
Python's own 5 ms the two hinder each other (a sixth fewer stops a second, measured)."""


def run_sink(url: str, bootstrap: str, settings: Settings, stop: threading.Event) -> None:
    """Apply outcomes until `stop` is set; then finish the batch and leave the group.

    Needs neither Postgres nor Kafka to be up: it waits for them, and says so (log and `rajada status`). Any
    number may run: the group shares the partitions out, Postgres' offsets let nothing be applied twice.

    Args:
        url: libpq URL of the database.
        bootstrap: Kafka's host:port list.
        settings: topic prefix and session timeout.
        stop: set from another thread or a signal handler.
    """
    tracing.begin(settings, NAME)
    topic = settings.topic(OUTCOMES)
    intake = Intake(
        bootstrap,
        group=settings.topic(GROUP),
        topic=topic,
        session_timeout_s=settings.session_timeout_s,
    )
    passes, care = Passes(url, bootstrap, settings), GroupLinkCare(url, bootstrap, settings)
    for name, run in (("alerts", passes.run), ("group-links", care.run)):
        threading.Thread(target=run, args=(stop,), name=name, daemon=True).start()
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_S)
    try:
        with Writer(url) as writer:
            graveyard = Graveyard(bootstrap, settings)
            sink = _Sink(topic, intake, writer, graveyard, stop, settings.language)
            serve(settings, NAME, sink.meter.readings, passes.seen.readings)
            sink.run()
    finally:
        sys.setswitchinterval(before)
        intake.close()


@dataclass(frozen=True, slots=True)
class _Writing:
    """A batch that is being written, and what comes of it: how far each partition moves."""

    batch: Batch
    moved: Future[dict[int, int]]


class _Sink:
    """The loop and its state: where each partition stands, and what we last said about ourselves."""

    def __init__(
        self,
        topic: str,
        intake: Intake,
        writer: Writer,
        graveyard: Graveyard,
        stop: threading.Event,
        language: Language,
    ) -> None:
        self._topic = topic
        self._intake = intake
        self._writer = writer
        self._graveyard = graveyard
        self._stop = stop
        self._topic_id = ""
        self._positions: dict[int, int] = {}
        self._language = language
        self._away: list[Record] = []
        self._writing: _Writing | None = None
        self.meter = Meter(NAME)
        self._hand = ThreadPoolExecutor(1, thread_name_prefix="sink-writer")
        self._wait_s = FIRST_WAIT_S
        self._failed = False
        self._outage = Outage()
        self._settled_at = 0.0
        self._said: tuple[str, str] | None = None

    def run(self) -> None:
        """Until stopped; then the batch that is being written is finished."""
        with self._hand:
            while not self._stop.is_set():
                pulse.beat()
                try:
                    self._step()
                except PositionMoved as moved:
                    log.info("sink_position_moved", reason=str(moved))
                    self._forget()
                except Unavailable as away:
                    self._forget()
                    self._outage.seen(time.monotonic(), isinstance(away, PostgresAway))
                    self._wait(str(away))
            with contextlib.suppress(PositionMoved, Unavailable):
                self._finish()

    def _step(self) -> None:
        if self._intake.stale:
            self._finish()
            self._restart()
        else:
            batch = self._taken()
            self._finish()
            if batch.taken:
                self._begin(batch)
            elif not self._failed or time.monotonic() > self._settled_at:
                self._writer.check()
                self._well()
        if self._topic_id:
            self._intake.watch(self._topic_id)

    def _restart(self) -> None:
        """Read the positions from Postgres and start there, or wait for the group to give us partitions."""
        partitions = self._intake.partitions
        if partitions or not self._topic_id:
            self._topic_id = self._intake.topic_id()
        if not partitions:
            if partitions is not None:
                self._well()  # more sinks than partitions, or between two assignments
            self._intake.idle(POLL_S)
            return
        self._positions = self._writer.positions(self._topic_id, self._topic, partitions)
        self._intake.start(self._positions)
        # After a failure a quiet moment proves nothing: what failed may still be on its way to us.
        self._settled_at = time.monotonic() + SETTLE_S

    def _taken(self) -> Batch:
        """What came; what can't be read is buried or put off first, and its offset moves with the others."""
        batch: list[Taken] = []
        unread: list[Dead | Later] = []
        now_ms = time.time_ns() // 1_000_000
        for came in self._intake.take(BATCH, POLL_S):
            if isinstance(came, End):
                batch.append(Taken(came.partition, came.offset))
                continue
            found = read(came, now_ms)
            outcome = found if isinstance(found, Outcome) else None
            batch.append(Taken(came.partition, came.offset + 1, outcome, came, isinstance(found, Later)))
            if not isinstance(found, Outcome):
                unread.append(found)
        self._put_away(unread)
        dead = [dead_outcome(one, self._language) for one in unread if isinstance(one, Dead)]
        return batch_of(self._worthwhile(batch), dead)

    def _put_away(self, unread: Sequence[Dead | Later]) -> None:
        """Write what can't be read elsewhere, once, though its offset may have to wait and come again."""
        new = [one for one in unread if one.record not in self._away]
        self._graveyard.bury([one for one in new if isinstance(one, Dead)])
        self._graveyard.postpone([one for one in new if isinstance(one, Later)])
        self._away += [one.record for one in new]

    def _worthwhile(self, batch: list[Taken]) -> list[Taken]:
        """Nothing when it would neither write a row nor move an offset: an end that was reached before."""
        ahead = dict(self._positions)
        if self._writing is not None:
            ahead |= {taken.partition: taken.next_offset for taken in self._writing.batch.taken}
        if any(taken.next_offset != ahead[taken.partition] for taken in batch):
            return batch
        return []

    def _begin(self, batch: Batch) -> None:
        """Let the other thread write a batch; nothing else uses the writer until `_finish`."""
        moved = self._hand.submit(self._writer.write, self._topic_id, batch, dict(self._positions))
        self._writing = _Writing(batch, moved)

    def _finish(self) -> None:
        """Wait for the batch that is being written, and see to what Postgres refuses of it."""
        writing, self._writing = self._writing, None
        if writing is not None:
            try:
                moved = writing.moved.result()
            except Refused as refused:
                self._divide(writing.batch, refused)
            else:
                self._moved(moved, writing.batch)
            self._well()
        self._writer.upkeep()
        self.meter.tell()

    def _write(self, batch: Batch) -> None:
        """Write a batch here and now, halving it around whatever Postgres refuses."""
        try:
            moved = self._writer.write(self._topic_id, batch, self._positions)
        except Refused as refused:
            self._divide(batch, refused)
        else:
            self._moved(moved, batch)

    def _divide(self, batch: Batch, refused: Refused) -> None:
        if len(batch.taken) > 1:
            middle = len(batch.taken) // 2
            self._write(batch_of(batch.taken[:middle], batch.conditions))
            self._write(batch_of(batch.taken[middle:], batch.conditions))
        elif refused.timed_out:
            raise Unavailable(str(refused)) from refused  # slow, not wrong: it would never fit a dead letter
        else:
            self._last_chance(batch)

    def _last_chance(self, batch: Batch) -> None:
        """Once more, since a row that it needs may have gone while it was written; then it is dead."""
        taken = batch.taken[0]
        try:
            moved = self._writer.write(self._topic_id, batch, self._positions)
        except Refused as refused:
            if taken.record is None or refused.timed_out:
                raise Unavailable(str(refused)) from refused  # not the row's fault
            dead = Dead(taken.record, "refused_by_postgres", str(refused))
            self._put_away([dead])
            conditions = [*batch.conditions, dead_outcome(dead, self._language)]
            batch = batch_of([replace(taken, outcome=None)], conditions)
            moved = self._writer.write(self._topic_id, batch, self._positions)
        self._moved(moved, batch)

    def _moved(self, moved: Mapping[int, int], batch: Batch) -> None:
        self.meter.passed(batch.taken, time.time_ns() // 1_000_000)
        tell_written(batch.taken, *self._writer.lasted_ms)
        self._positions |= moved
        self._away = [
            one for one in self._away if one.offset >= self._positions.get(one.partition, one.offset)
        ]
        self._intake.commit(moved)

    def _forget(self) -> None:
        """Take nothing for granted: the next step asks Kafka and Postgres anew."""
        self._topic_id = ""
        self._intake.stale = True

    def _wait(self, reason: str) -> None:
        """Say what is missing and wait a while, longer each time; the batch is read again afterwards."""
        if self._say("waiting", reason):
            log.warning("sink_waiting", reason=reason)
        until = time.monotonic() + self._wait_s
        while (left := until - time.monotonic()) > 0 and not self._stop.is_set():
            self._intake.hold(min(left, POLL_S))
        self._failed = True
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)

    def _well(self) -> None:
        """All is written that came, or nothing came."""
        if (away_s := self._outage.over(time.monotonic())) is not None:
            self._writer.tell([database_was_away(away_s, self._language)])
        self._failed = False
        self._wait_s = FIRST_WAIT_S
        if self._say("ready"):
            log.info("sink_ready", topic=self._topic)

    def _say(self, state: Literal["ready", "waiting"], reason: str = "") -> bool:
        """Tell the supervisor, and whether that is news."""
        if self._said == (state, reason):
            return False
        self._said = (state, reason)
        status.report(NAME, state, reason)
        return True
