"""The worker: `faust -A streams worker` runs collect → windows → decide → jobs.

Everything that decides lives elsewhere and knows nothing of Faust; here the pieces are plugged together.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Coroutine, Iterable, Mapping, Sequence
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
from streams.collect import Collector
from streams.contact import Contact, decode_contact, encode_contact
from streams.decider import DatabaseDecider
from streams.facts import FactReader
from streams.flush import Flusher
from streams.forget import forget_idle
from streams.handlers.answers import Handler
from streams.handlers.group_link_template import GroupLinkTemplate
from streams.handlers.http import HttpClient
from streams.handlers.inbound_turn import InboundTurn
from streams.handlers.outgoing import Outgoing
from streams.handlers.whatsapp import WhatsApp
from streams.health import Health, conditions
from streams.job_runner import JobRunner
from streams.just_made import JustMade
from streams.lengths import WindowLengths
from streams.meter import tell
from streams.ports import Item
from streams.readiness import Readiness
from streams.sessions import Sessions
from streams.source import SourceTopic, SourceTopicRemade
from streams.sweep_rounds import SweepRounds
from streams.transport import Batched, Record, Table, credentials, each_batch, end_process
from streams.transport_readings import consumer_of, hangs, not_ready, transport_source
from streams.undertaker import OriginalRecords
from streams.whatsapp_numbers import Numbers
from streams.worker_readings import sweep_source, windows_source
from streams.written import SinkProgress
from telemetry import pulse, tracing
from telemetry.serving import Port, serve
from telemetry.vitals import Trouble, trouble

log = structlog.get_logger(__name__)

NAME: Final = "worker"
"""The process' name in `rajada status`."""
HEARTBEATS_PER_SESSION: Final = 4
GC_THRESHOLDS: Final = (400_000, 20, 50)
"""The contacts are a large heap without cycles: the default walks all of it again and again (an eighth of
the processor time of an event, measured with and without)."""


class _Outbox:
    """Sends through the app's producer (see `streams.ports.Outbox`)."""

    def __init__(self, app: faust.App, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    def send(self, topic: str, items: Iterable[Item]) -> asyncio.Future[dict[int, int]]:
        sent: asyncio.Future[dict[int, int]] = self._app.producer.send_batch(
            self._settings.topic(topic), items
        )
        return sent


def build_app(settings: Settings) -> faust.App:
    """The Faust application of the worker, ready to run; makes the topics that are missing when it starts.

    Waits while another system works on our events or jobs (`streams.coexistence`).

    Raises MissingServer when no Kafka or Postgres is named, NotPrepared when the database isn't migrated,
    RegistryAway or NotRegistered when a schema registry is named that doesn't tell the ids of our schemas.
    """
    configure_logging(settings)
    settle()
    gc.set_threshold(*GC_THRESHOLDS)
    bootstrap, database_url = settings.bootstrap(), settings.database()
    tracing.begin(settings, NAME)
    beginning = serve(settings, NAME)
    topics.ensure_topics(bootstrap, settings)
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
        self._ready = Readiness(NAME)
        self._settings = settings
        self._topic = app.topic(settings.topic(topics.SOURCE), schema=Batched(), partitions=partitions)
        self._contacts: Table[Contact] = app.Table(
            topics.CONTACTS_TABLE, partitions=partitions, encode=encode_contact, decode=decode_contact
        )
        self._pool = async_pool(settings.database(), name="worker", statement_timeout_ms=10_000)
        source_name, outcomes = settings.topic(topics.SOURCE), settings.topic(topics.OUTCOMES)
        self._source = SourceTopic(bootstrap, source_name, outcomes)
        self._written = SinkProgress(self._pool, outcomes)
        self._clocks = Clocks(time.monotonic, lambda: time.time_ns() // 1_000_000)
        outbox = _Outbox(app, settings)
        self._decider = decider = DatabaseDecider(FactReader(self._pool), settings, self._clocks.wall_ms)
        just_made = JustMade()
        self._flusher = Flusher(
            self._contacts,
            decider,
            OriginalRecords(bootstrap, source_name),
            outbox,
            self._source,
            self._clocks,
            retry_delay_ms=settings.retry_delay_ms,
            max_wait_ms=settings.max_wait_ms,
            run_by=settings.jobs_run_by,
            language=settings.language,
            written_below=self._written.written_below,
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
            on_window=self._flusher.on_window,
            on_progress=self._flusher.on_progress,
            newest_ms=self._flusher.newest_ms,
            wall_ms=self._clocks.wall_ms,
            language=settings.language,
        )
        self._sweep = SweepRounds(settings.database(), bootstrap, settings)
        looks = conditions(decider.skew, self._sweep, settings.language)
        self._health = Health(looks, outbox, self._clocks.wall_ms, new_holder())
        self._http = HttpClient(settings.ca_file, Outgoing.of(settings))
        turns = InboundTurn(self._http, settings)
        whatsapp = WhatsApp(self._http, settings, share=lambda: self._jobs.share)
        links = GroupLinkTemplate(whatsapp, Numbers(self._pool, settings))
        handlers: dict[str, Handler] = {turns.kind: turns, links.kind: links}
        self._jobs = JobRunner(
            app, settings, self._pool, outbox, self._clocks, handlers, Sessions(self._pool), just_made
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
        background: tuple[Coroutine[Any, Any, None], ...] = (
            self._flusher.run(),
            self._written.run(),
            self._source.watch(),
            forget_idle(self._contacts, self._written.written_below, self._clocks.wall_ms),
            coexistence.watch(self._pool, self._settings),
            self._sweep.run(),
            self._health.run(),
            _beat(),
            tell(self._collector.counts, self._flusher.tally, self._told),
            *self._jobs.background(),
        )
        for one in background:
            task = asyncio.create_task(one)
            task.add_done_callback(_ended)
            self._tasks.add(task)

    async def finish(self, *_: object, **__: object) -> None:
        """The consumer has stopped: end what runs beside it."""
        self._flusher.stop()
        self._jobs.executor.stop()
        await self._flusher.give_up()
        for task in self._tasks:
            task.remove_done_callback(_ended)
            task.cancel()
        await self._http.close()
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
    folder = settings.home / "worker"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _ended(task: asyncio.Task[None]) -> None:
    """A background task never ends by itself: going on without it would lose windows in silence."""
    if not task.cancelled():
        end_process(task.exception() or RuntimeError("a background task of the worker ended"))
