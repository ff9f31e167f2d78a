"""The reconciler: `faust -A streams.reconcile worker`, an application and a group of its own.

Faust brings the triggers; the schedule stands in Postgres and is looked at by a thread beside it
(docs/adr/the-schedule-stands-in-postgres.md).
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Sequence
from types import FrameType
from typing import Any, Final

import faust
import structlog

from kafka_access import kafka_security
from logs import configure_logging, logging_config
from schemas.topic_names import RECONCILER_ID, RECONCILIATION
from settings import Settings
from streams.reconcile.process import Reconciler
from streams.reconcile.triggers import UnreadableTrigger, request_of
from streams.reconcile.workshop import NAME
from streams.topics import TopicsUnusable, ensure_topics
from streams.transport import Batched, Record, Table, credentials, each_batch
from streams.transport_readings import consumer_of, hangs, transport_source
from telemetry import tracing
from telemetry.serving import serve

log = structlog.get_logger(__name__)

HEARTBEATS_PER_SESSION: Final = 4
FIRST_WAIT_S: Final = 0.5
LONGEST_WAIT_S: Final = 10.0


def build_app(settings: Settings) -> faust.App:
    """The Faust application of the reconciler, ready to run; it begins its work when the worker starts.

    Raises MissingServer when no Kafka or Postgres is named, WrongSetting or WrongSchedule for settings that
    can't be used.
    """
    configure_logging(settings)
    tracing.begin(settings, NAME)
    worker = _Worker(settings)
    folder = settings.home / "reconciler"
    folder.mkdir(parents=True, exist_ok=True)
    app = faust.App(
        settings.topic(RECONCILER_ID),
        broker=f"batched://{settings.bootstrap()}",
        broker_credentials=credentials(kafka_security(settings, settings.bootstrap())),
        store="batchmem://",
        Table=Table,
        Worker=worker.begin,
        datadir=str(folder),
        logging_config=logging_config(settings),
        worker_redirect_stdouts=False,
        web_enabled=False,
        topic_partitions=1,
        topic_disable_leader=True,
        stream_recovery_delay=0.0,
        stream_wait_empty=True,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / HEARTBEATS_PER_SESSION,
        broker_commit_interval=1.0,
        consumer_auto_offset_reset="earliest",
    )
    worker.join(app)
    return app


class _Worker:
    """What one process does when Faust starts, brings records, and stops."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._bootstrap = settings.bootstrap()
        self._reconciler = Reconciler(settings.database(), settings)

    def join(self, app: faust.App) -> None:
        """Make the application call us."""
        topic = app.topic(self._settings.topic(RECONCILIATION), schema=Batched(), partitions=1)
        app.agent(topic, name="triggers")(self.triggers)
        app.task(self.joined)
        app.on_before_shutdown.connect(self.finish, weak=False)

    def begin(self, app: faust.App, **options: Any) -> faust.Worker:
        """Called by `faust worker` and by no other command: look at the schedule, then wait for Kafka."""
        serve(
            self._settings,
            NAME,
            self._reconciler.readings,
            transport_source(lambda: consumer_of(app), tables=False),
            live=lambda: list(hangs(consumer_of(app))),
        )
        self._reconciler.start()
        # until Faust takes the signals over, a stop ends the run that goes on, too
        before = {number: signal.signal(number, self._stopped) for number in (signal.SIGINT, signal.SIGTERM)}
        wait_s = FIRST_WAIT_S
        while True:
            try:
                ensure_topics(self._bootstrap, self._settings)
            except TopicsUnusable as error:
                self._reconciler.say("kafka", f"{error} The schedule goes on")
                time.sleep(wait_s)
                wait_s = min(wait_s * 2, LONGEST_WAIT_S)
            else:
                break
        for number, handler in before.items():
            signal.signal(number, handler)
        return faust.Worker(app, **options)

    def _stopped(self, number: int, frame: FrameType | None) -> None:
        self._reconciler.stop()
        sys.exit(0)

    async def joined(self) -> None:
        """The application has started: triggers are read, unless another reconciler has the partition."""
        self._reconciler.say("kafka", None)

    async def triggers(self, stream: faust.StreamT[Sequence[Record]]) -> None:
        """The agent: each trigger becomes a request in Postgres, durable before it is acknowledged."""
        await each_batch(stream, self._take)

    async def _take(self, records: Sequence[Record], partition: int) -> None:
        for record in records:
            if record.value is None:
                continue
            place = (record.topic, record.partition, record.offset, record.timestamp)
            try:
                request = request_of(record.value, place)
            except UnreadableTrigger as error:
                # an order that nobody can read is no data: the schedule comes anyway
                log.warning("trigger_unreadable", offset=record.offset, reason=str(error))
                continue
            await asyncio.wrap_future(self._reconciler.ask(request))

    async def finish(self, *_: object, **__: object) -> None:
        """The consumer has stopped: end the run that goes on."""
        await asyncio.to_thread(self._reconciler.stop)
