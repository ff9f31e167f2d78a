"""The worker: `faust -A streams worker` runs collect → windows → decide → jobs.

Everything that decides lives elsewhere and knows nothing of Faust; here the pieces are plugged together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import faust
import structlog

from db.leases import new_holder
from db.pool import async_pool
from kafka_access import kafka_security
from logs import configure_logging, logging_config
from schemas.codec import settle
from settings import Settings
from streams import coexistence, topics
from streams.agenda import Clocks
from streams.allocator import suit_many_contacts
from streams.asking import question_of
from streams.collect import Collector
from streams.contact import Contact, Window, decode_contact, encode_contact
from streams.decider import DatabaseDecider, Reads
from streams.facts import FactReader
from streams.first_look import database_ahead_ms
from streams.first_looks import FirstLooks, WithoutOutcomes
from streams.flush import Flusher
from streams.forget import forget_idle
from streams.health import Health, conditions
from streams.job_runner import JobRunner
from streams.just_made import JustMade
from streams.lengths import WindowLengths
from streams.meter import tell
from streams.outbox import AppOutbox
from streams.ports import Outbox
from streams.readiness import Readiness
from streams.shadow import NoJobs, ShadowOutbox, begin_at_the_end, written_below
from streams.source import SourceTopic, SourceTopicRemade
from streams.steady_clock import SteadyClock
from streams.sweep_rounds import SweepRounds
from streams.transport import Batched, Record, Table, credentials, each_batch, end_process
from streams.transport_readings import consumer_of, hangs, not_ready, transport_source
from streams.undertaker import OriginalRecords
from streams.worker_readings import sweep_source, windows_source
from streams.written import SinkProgress
from telemetry import pulse, tracing
from telemetry.serving import Port, serve
from telemetry.vitals import Trouble, trouble

log = structlog.get_logger(__name__)

NAME: Final = "worker"
"""The process' name in `rajada status`."""
SHADOW: Final = "shadow"
"""And that of a worker in shadow mode."""
HEARTBEATS_PER_SESSION: Final = 4


def name_of(settings: Settings) -> str:
    """What the process is called: a shadow is not the worker."""
    return SHADOW if settings.shadow else NAME


def build_app(settings: Settings) -> faust.App:
    """The Faust application of the worker, ready to run; makes the topics that are missing when it starts.

    Waits while another system works on our events or jobs (`streams.coexistence`), unless it is a shadow.

    Raises MissingServer when no Kafka or Postgres is named, NotPrepared when the database isn't migrated,
    RegistryAway or NotRegistered when a schema registry is named that doesn't tell the ids of our schemas.
    """
    configure_logging(settings)
    settle()
    suit_many_contacts()
    bootstrap, database_url = settings.bootstrap(), settings.database()
    name = name_of(settings)
    tracing.begin(settings, name)
    beginning = serve(settings, name)
    topics.ensure_topics(bootstrap, settings)
    if settings.shadow:
        begin_at_the_end(bootstrap, settings)
    else:
        coexistence.wait_until_alone(database_url, settings)
    app = faust.App(
        settings.topic(topics.APP_ID),
        broker=f"batched://{bootstrap}",
        broker_credentials=credentials(kafka_security(settings, bootstrap)),
        store="batchmem://",
        Table=Table,
        datadir=str(_data_folder(settings)),
        logging_config=logging_config(settings),
        worker_redirect_stdouts=False,
        web_enabled=False,
        topic_partitions=topics.partition_count(bootstrap, settings),
        topic_disable_leader=True,
        table_standby_replicas=settings.standby_replicas,
        stream_recovery_delay=0.0,
        stream_wait_empty=True,
        stream_buffer_maxsize=16,
        broker_session_timeout=settings.session_timeout_s,
        broker_heartbeat_interval=settings.session_timeout_s / HEARTBEATS_PER_SESSION,
        broker_commit_interval=1.0,
        broker_commit_every=100_000,
        consumer_auto_offset_reset="earliest",
        consumer_group_instance_id=settings.instance_id,
        producer_linger=0.002,
    )
    worker = Worker(app, settings)
    worker.join()
    if beginning is not None:
        worker.show(beginning)
    return app


class Worker:
    """The pieces of one worker, and what they do when the application and its group move."""

    def __init__(self, app: faust.App, settings: Settings) -> None:
        bootstrap, partitions = settings.bootstrap(), app.conf.topic_partitions
        self._app = app
        self._ready = Readiness(name_of(settings))
        self._settings = settings
        source_name, outcomes = topics.source_topic(settings), settings.topic(topics.OUTCOMES)
        self._topic = app.topic(source_name, schema=Batched(), partitions=partitions)
        self._contacts: Table[Contact] = app.Table(
            topics.CONTACTS_TABLE, partitions=partitions, encode=encode_contact, decode=decode_contact
        )
        self._pool = async_pool(
            settings.database(),
            name=name_of(settings),
            statement_timeout_ms=10_000,
            read_only=settings.shadow,
        )
        self._source = SourceTopic(bootstrap, source_name, outcomes)
        self._written = SinkProgress(self._pool, outcomes)
        steady = SteadyClock()
        ahead_ms = database_ahead_ms(settings.database(), steady.now_ms)
        if ahead_ms is not None:
            steady.compare(ahead_ms)
        self._clocks = Clocks(time.monotonic, steady.now_ms)
        outbox: Outbox = AppOutbox(app, settings)
        reader: Reads = FactReader(self._pool)
        self._written_below = self._written.written_below
        if settings.shadow:
            outbox, reader, self._written_below = ShadowOutbox(outbox), WithoutOutcomes(reader), written_below
        self._decider = DatabaseDecider(reader, settings, steady.now_ms, steady.compare)
        self._looks = FirstLooks(self._decider) if settings.shadow else None
        just_made = JustMade()
        self._flusher = Flusher(
            self._contacts,
            self._looks or self._decider,
            OriginalRecords(bootstrap, source_name),
            outbox,
            self._source,
            self._clocks,
            retry_delay_ms=settings.retry_delay_ms,
            max_wait_ms=settings.max_wait_ms,
            run_by=settings.jobs_run_by,
            language=settings.language,
            written_below=self._written_below,
            on_state=self._ready.of("database"),
            just_made=just_made,
        )
        self._collector = Collector(
            self._contacts,
            WindowLengths(self._pool, settings),
            outbox,
            self._source,
            partitions=partitions,
            taken=self._flusher.taken,
            on_window=self.opened if self._looks is not None else self._flusher.on_window,
            on_progress=self._flusher.on_progress,
            newest_ms=self._flusher.newest_ms,
            wall_ms=self._clocks.wall_ms,
            language=settings.language,
        )
        self._sweep = SweepRounds(settings.database(), bootstrap, settings)
        looks = conditions(self._decider.skew, steady, self._sweep, settings.language)
        self._health = Health(looks, outbox, self._clocks.wall_ms, new_holder())
        self._jobs: JobRunner | NoJobs = (
            NoJobs()
            if settings.shadow
            else JobRunner.of(app, settings, self._pool, outbox, self._clocks, just_made)
        )
        self._flusher.tally.on_job = self._jobs.made
        self._tasks: set[asyncio.Task[None]] = set()

    def join(self) -> None:
        """Make the application call us."""
        self._app.agent(self._topic, name="collect")(self.collect)
        self._contacts.when_owned(self.own)
        self._contacts.when_revoked(self.give_up)
        self._jobs.join()
        self._app.task(self.work)
        self._app.on_before_shutdown.connect(self.finish, weak=False)

    async def collect(self, stream: faust.StreamT[Sequence[Record]]) -> None:
        """The agent: batches of the source topic go into windows."""
        await each_batch(stream, self._collector.collect)

    def opened(self, key: bytes, partition: int, window: Window) -> None:
        """A window of a shadow opened, or filled up: it is looked at now, too."""
        self._flusher.on_window(key, partition, window)
        if self._looks is not None and len(window.events) == 1:
            now_ms, max_wait_ms = self._clocks.wall_ms(), self._settings.max_wait_ms
            self._looks.ask(
                question_of(key, window, now_ms=now_ms, superseded_since_ms=None, max_wait_ms=max_wait_ms)
            )

    async def own(self, owned: set[int]) -> None:
        """These partitions are ours and recovered: close their windows from now on."""
        self._source.attach(self._app.consumer)
        self._app.consumer.on_log_remade = self.look_again
        self._app.consumer.alarms.on_change = self.alarmed
        await self._source.identify()
        self._flusher.own(owned)
        self._ready.say("group", None)
        log.info("partitions_owned", partitions=sorted(owned), contacts=len(self._contacts))

    async def look_again(self, topic: str) -> None:
        """A log is about to be read from its start: are its offsets still those that the contacts know?"""
        try:
            await self._source.identify()
        except SourceTopicRemade as error:
            end_process(error)

    def alarmed(self, active: Mapping[str, str]) -> None:
        """The transport has found something wrong, or right again."""
        told = "; ".join(f"{kind} {what}" for kind, what in active.items())
        self._ready.say("transport", told or None)

    async def give_up(self) -> None:
        """The partitions are going: finish what is under way."""
        self._ready.say("group", "the group rebalances")
        await self._flusher.give_up()

    async def work(self) -> None:
        """Start what runs beside the agent."""
        await self._pool.open(wait=False)
        for one in (*self._background(), *self._beside()):
            task = asyncio.create_task(one)
            task.add_done_callback(_ended)
            self._tasks.add(task)

    def _background(self) -> tuple[Coroutine[Any, Any, None], ...]:
        return (
            self._flusher.run(),
            self._source.watch(),
            forget_idle(self._contacts, self._written_below, self._clocks.wall_ms),
            _beat(),
            tell(name_of(self._settings), self._collector.counts, self._flusher.tally, self._told),
            *self._jobs.background(),
        )

    def _beside(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What a worker does beside its messages; a shadow has nobody's sink, sweep and alerts to watch."""
        if self._looks is not None:
            return (self._looks.run(),)
        return (
            self._written.run(),
            coexistence.watch(self._pool, self._settings),
            self._sweep.run(),
            self._health.run(),
        )

    async def finish(self, *_: object, **__: object) -> None:
        """The consumer has stopped: end what runs beside it."""
        self._flusher.stop()
        self._jobs.stop()
        await self._flusher.give_up()
        for task in self._tasks:
            task.remove_done_callback(_ended)
            task.cancel()
        await self._jobs.close()
        await self._pool.close()

    def show(self, port: Port) -> None:
        """Show what it counts and what it waits for from now on, in the place of how it begins."""
        port.exhibit.show(
            windows_source(self._collector.counts, self._flusher.tally, self._decider),
            sweep_source(self._sweep.told, lambda: self._sweep.held_by is not None),
            transport_source(lambda: consumer_of(self._app)),
            *self._jobs.sources(),
        )
        port.vitals.look_at(ready=self._not_ready, live=lambda: list(hangs(consumer_of(self._app))))

    def _not_ready(self) -> list[Trouble]:
        """What the probes tell: what the transport waits for, then what the parts of the worker do."""
        found = {one.part: one for one in not_ready(consumer_of(self._app))}
        for part, why in self._ready.reasons().items():
            if part != "transport":  # its alarms are in what `not_ready` tells
                found.setdefault(part, trouble(part, why))
        return list(found.values())

    def _told(self) -> dict[str, int | str]:
        return {**self._sweep.told(), **self._jobs.told(), **self._app.consumer.counters()}


async def _beat() -> None:
    while True:
        pulse.beat()
        await asyncio.sleep(1.0)


def _data_folder(settings: Settings) -> Path:
    folder = settings.home / name_of(settings)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _ended(task: asyncio.Task[None]) -> None:
    """A background task never ends by itself: going on without it would lose windows in silence."""
    if not task.cancelled():
        end_process(task.exception() or RuntimeError("a background task of the worker ended"))
