"""The forwarder as a process: sessions one after the other until it is told to stop."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Final, Literal

import structlog

import status
from schemas.topic_names import CLOCK, DELAYS_GROUP
from settings import Settings
from streams.delays.alarm import EVERY_S as ALARM_EVERY_S
from streams.delays.alarm import LateAlarm
from streams.delays.forwarder import Forwarder, SessionOver
from streams.delays.identity import identity
from streams.delays.intake import GroupIntake
from streams.delays.lateness import BAR_MS, Tally
from streams.delays.outlet import TransactionalOutlet
from streams.delays.plan import Trouble
from streams.delays.probe import KafkaClock
from streams.delays.queues import Mark, Queues
from streams.delays.readings import delays_source
from streams.delays.records import Place, Send
from streams.due import DELAY_TOPICS
from streams.topics import TopicsUnusable, ensure_topics
from telemetry import pulse, tracing
from telemetry.serving import serve

log = structlog.get_logger(__name__)

NAME: Final = "delays"
"""The process' name in `rajada status`."""
GROUP: Final = DELAYS_GROUP

FIRST_WAIT_S: Final = 0.2
LONGEST_WAIT_S: Final = 5.0
COUNTERS_EVERY_S: Final = 5.0


def run_delays(bootstrap: str, settings: Settings, stop: threading.Event) -> None:
    """Forward delayed records until `stop` is set; then finish the transaction and leave the group.

    Any number may run: the group shares the partitions out. Doesn't need Kafka to be up: it waits, and says
    so (log and `rajada status`).

    Args:
        bootstrap: Kafka's host:port list.
        settings: topic prefix, home, session timeout, language.
        stop: set from another thread or a signal handler.

    Raises:
        ClockUnusable: the topic `dispatch.clock` has another configuration than it must have.
    """
    with identity(settings.home) as name:
        _Process(bootstrap, settings, stop, name).run()


class _Process:
    """What outlasts a session: the clock, the counts, what we last said."""

    def __init__(self, bootstrap: str, settings: Settings, stop: threading.Event, identity: str) -> None:
        self._bootstrap = bootstrap
        self._settings = settings
        self._stop = stop
        self._id = settings.topic(f"{GROUP}-{identity}")
        self._tally = Tally()
        self._trouble: dict[Mark, Trouble] = {}
        self._wait_s = FIRST_WAIT_S
        self._said: tuple[str, str] | None = None
        self._alarm = LateAlarm(identity, settings.language)
        self._queues: Queues | None = None
        self._counted_at_s = 0.0
        self._look_at_s = time.monotonic() + ALARM_EVERY_S

    def run(self) -> None:
        """Until stopped."""
        tracing.begin(self._settings, NAME)
        serve(self._settings, NAME, delays_source(self._tally, lambda: self._queues))
        clock = KafkaClock(self._bootstrap, self._settings.topic(CLOCK))
        try:
            while not self._stop.is_set():
                pulse.beat()
                try:
                    self._session(clock)
                except (SessionOver, TopicsUnusable) as error:
                    self._wait(clock, str(error))
        finally:
            clock.close()
        status.report(NAME, "waiting", "stopped")

    def _session(self, clock: KafkaClock) -> None:
        """From joining the group to leaving it."""
        ensure_topics(self._bootstrap, self._settings)
        while not clock.known:
            if self._stop.is_set():
                return
            pulse.beat()
            self._say("waiting", "for Kafka to tell its time")
            clock.upkeep(0.05)
        waits_ms = {self._settings.topic(topic): wait_ms for topic, wait_ms in DELAY_TOPICS.items()}
        queues = self._queues = Queues(waits_ms)
        outlet = TransactionalOutlet(
            self._bootstrap, transactional_id=self._id, full_name=self._settings.topic
        )
        try:
            # first of all: what an earlier forwarder of this name left open would hold its offsets back
            outlet.open()
            intake = GroupIntake(
                self._bootstrap,
                group=self._settings.topic(GROUP),
                waits_ms=waits_ms,
                queues=queues,
                session_timeout_s=self._settings.session_timeout_s,
            )
            try:
                way = _AsMember(outlet, intake)
                forwarder = Forwarder(
                    queues, intake, way, clock, self._tally, self._trouble, self._settings.language
                )
                self._forward(forwarder, intake, queues, clock)
            finally:
                intake.close()
        finally:
            outlet.close()

    def _forward(self, forwarder: Forwarder, intake: GroupIntake, queues: Queues, clock: KafkaClock) -> None:
        while not self._stop.is_set():
            pulse.beat()
            forwarder.step()
            clock.upkeep()
            if forwarder.undone is not None:
                if self._say("waiting", forwarder.undone):
                    log.warning("delays_transaction_aborted", reason=forwarder.undone)
            elif not clock.answers(intake.away_since_s):
                self._say("waiting", "Kafka is away")
            elif intake.spoken_to:
                self._wait_s = FIRST_WAIT_S
                if self._say("ready"):
                    log.info("delays_ready", partitions=len(queues.places))
            self._count(queues)
            self._look(forwarder, clock)
        self._counted_at_s = 0.0
        self._count(queues)

    def _wait(self, clock: KafkaClock, reason: str) -> None:
        self._say("waiting", reason)
        log.warning("delays_waits", reason=reason, seconds=self._wait_s)
        until = time.monotonic() + self._wait_s
        while time.monotonic() < until and not self._stop.is_set():
            clock.upkeep(0.05)
        self._wait_s = min(self._wait_s * 2, LONGEST_WAIT_S)

    def _count(self, queues: Queues) -> None:
        """Leave the numbers for `rajada status`."""
        now_s = time.monotonic()
        if now_s < self._counted_at_s:
            return
        self._counted_at_s = now_s + COUNTERS_EVERY_S
        tally, late = self._tally, self._tally.lateness.figures(now_s)
        counters = {
            "forwarded": tally.forwarded,
            "due": tally.due,
            "held": queues.waiting,
            "dead": tally.dead,
            "undone": tally.undone,
            "partitions": len(queues.places),
            "late_records": late.records,
            "late_p50_ms": late.p50_ms,
            "late_p99_ms": late.p99_ms,
            "late_max_ms": late.max_ms,
        }
        status.counters(NAME, counters)

    def _look(self, forwarder: Forwarder, clock: KafkaClock) -> None:
        """Once a minute: do records come in time? If not, log it, and tell it on if it lasts."""
        now_s = time.monotonic()
        if now_s < self._look_at_s:
            return
        self._look_at_s = now_s + ALARM_EVERY_S
        late = self._tally.lateness.figures(now_s)
        if late.p99_ms > BAR_MS:
            log.error(
                "delays_late",
                records=late.records,
                p99_ms=late.p99_ms,
                max_ms=late.max_ms,
                what_to_do="was it down, or Kafka slow? If it goes on, start another `rajada delays`",
            )
        word = self._alarm.look(late, int(clock.now_ms()))
        if word is not None:
            forwarder.tell(word)

    def _say(self, state: Literal["ready", "waiting"], reason: str = "") -> bool:
        """Tell the supervisor, and whether that is news."""
        if self._said == (state, reason):
            return False
        self._said = (state, reason)
        status.report(NAME, state, reason)
        return True


class _AsMember:
    """The outlet of a member of the group (`forwarder.Outlet`)."""

    def __init__(self, outlet: TransactionalOutlet, intake: GroupIntake) -> None:
        self._outlet = outlet
        self._intake = intake

    def forward(self, sends: Sequence[Send], offsets: Mapping[Place, int], now_ms: int) -> None:
        """See `forwarder.Outlet`."""
        self._outlet.forward(sends, offsets, now_ms, self._intake.group_metadata())
