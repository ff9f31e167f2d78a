"""The worker's half that runs jobs: tables, agents and background work of the executor, plugged together."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from typing import Any

import faust
import structlog
from psycopg_pool import AsyncConnectionPool

from db.pool import AsyncPool
from schemas.kinds import GROUP_LINK, INBOUND_TURN
from settings import Settings
from streams import topics
from streams.agenda import Clocks
from streams.calls import Calls
from streams.contact import Window
from streams.contact_jobs import EVERYBODY, ContactJobs, decode_jobs, encode_jobs
from streams.execute import Executor
from streams.executor_ports import SessionStatus
from streams.group_link_intake import GroupLinkIntake
from streams.handlers.answers import Handler
from streams.handlers.group_link_template import NO_CREDENTIALS, GroupLinkTemplate
from streams.handlers.http import HttpClient
from streams.handlers.inbound_turn import NO_ENGINE, InboundTurn
from streams.handlers.outgoing import REFUSED, Outgoing
from streams.handlers.whatsapp import WhatsApp
from streams.job_book import JobBook
from streams.job_counting import told
from streams.job_endings import Rules
from streams.job_forgetting import forget_ended
from streams.job_intake import JobIntake
from streams.job_rows import PostgresJobRows, verify_old
from streams.just_made import JustMade
from streams.lanes import Lanes, Limits
from streams.newer_jobs import bury_unknown
from streams.ports import Outbox
from streams.sessions import Sessions
from streams.transport import Batched, Record, Table, each_batch
from streams.whatsapp_numbers import Numbers, default_number
from streams.worker_readings import group_links_source, jobs_source
from telemetry.readings import Source
from telemetry.tracing import Member, traces

log = structlog.get_logger(__name__)


class JobRunner:
    """What the worker needs to run jobs; follows the partitions as the windows do."""

    def __init__(
        self,
        app: faust.App,
        settings: Settings,
        pool: AsyncConnectionPool,
        outbox: Outbox,
        clocks: Clocks,
        handlers: Mapping[str, Handler],
        sessions: SessionStatus,
        just_made: JustMade | None = None,
        http: HttpClient | None = None,
    ) -> None:
        self._app = app
        self._http = http
        self._outbox = outbox
        self._settings = settings
        self._clocks = clocks
        self._partitions = app.conf.topic_partitions
        self._table: Table[ContactJobs] = app.Table(
            topics.JOBS_TABLE, partitions=self._partitions, encode=encode_jobs, decode=decode_jobs
        )
        self._limits = limits_of(settings)
        rules = Rules(
            kinds=frozenset(handlers),
            language=settings.language,
            on_unknown=settings.group_link_on_unknown,
            group_link_delay_ms=settings.group_link_retry_delay_ms,
            releases=frozenset(_there(settings)),
        )
        self._lanes = Lanes(self._limits)
        self._book = JobBook(
            self._table,
            self._lanes,
            clocks.wall_ms,
            spacing_ms=settings.person_spacing_ms,
            paused=frozenset({EVERYBODY} if settings.jobs_paused else ()),
        )
        self._calls = Calls(handlers, lambda: self.executor.wake())
        self.executor = Executor(self._book, self._calls, sessions, outbox, self, clocks, rules)
        self._intake = JobIntake(
            self._book,
            self.executor,
            self._calls,
            outbox,
            rules,
            wall_ms=clocks.wall_ms,
            leaving=lambda: bool(app.rebalancing or app.should_stop),
            just_made=just_made,
        )
        self._rows = PostgresJobRows(pool)
        self._group_links = GroupLinkIntake(
            outbox, partitions=self._partitions, wall_ms=clocks.wall_ms, language=settings.language
        )

    @classmethod
    def of(
        cls,
        app: faust.App,
        settings: Settings,
        pool: AsyncPool,
        outbox: Outbox,
        clocks: Clocks,
        just_made: JustMade,
    ) -> JobRunner:
        """One that does every kind of job there is, over an HTTP client of its own."""
        http = HttpClient(settings.ca_file, Outgoing.of(settings))
        turns = InboundTurn(http, settings, clocks.wall_ms)
        whatsapp = WhatsApp(http, settings, share=lambda: runner.share, wall_ms=clocks.wall_ms)
        links = GroupLinkTemplate(whatsapp, Numbers(pool, settings))
        handlers: dict[str, Handler] = {turns.kind: turns, links.kind: links}
        runner = cls(app, settings, pool, outbox, clocks, handlers, Sessions(pool), just_made, http)
        return runner

    def join(self) -> None:
        """Make the application call us."""
        self._agent(topics.JOBS, "jobs", self._intake.jobs)
        self._agent(topics.CONTROL, "commands", self._intake.commands)
        self._agent(topics.GROUP_LINKS, "group_links", self._group_links.events)
        self._table.when_owned(self.own)
        self._table.when_revoked(self.give_up)

    def _agent(
        self, name: str, called: str, work: Callable[[Sequence[Record], int], Coroutine[Any, Any, None]]
    ) -> None:
        topic = self._app.topic(self._settings.topic(name), schema=Batched(), partitions=self._partitions)

        async def agent(stream: faust.StreamT[Sequence[Record]]) -> None:
            await each_batch(stream, work)

        self._app.agent(topic, name=called)(agent)

    def made(self, job_id: str, window: Window, durable_ms: int) -> None:
        """A window became a job, which was durable then (ms)."""
        if traces().on:
            members = [Member(one.event_id, one.offset, one.time_ms) for one in window.events]
            traces().made(job_id, INBOUND_TURN, members, durable_ms)

    async def own(self, owned: set[int]) -> None:
        """These partitions are ours and recovered: run their jobs from now on."""
        self._lanes.rates.share = len(owned) / self._partitions
        await self.executor.own(owned)
        log.info("jobs_owned", partitions=sorted(owned), waiting=self._lanes.waiting)

    async def give_up(self) -> None:
        """The partitions are going: let calls end, hand the others back."""
        stopping = self._app.should_stop
        await self.executor.give_up(
            self._settings.stop_grace_s if stopping else self._settings.handover_grace_s
        )

    def stop(self) -> None:
        """Start no more jobs."""
        self.executor.stop()

    async def close(self) -> None:
        """Close what calls went over."""
        if self._http is not None:
            await self._http.close()

    async def fence(self) -> None:
        """The group's word that we own what we owned (see `streams.executor_ports.Fence`)."""
        await self._app.consumer.fence()

    def background(self) -> tuple[Coroutine[Any, Any, None], ...]:
        """What runs beside the agents, for ever."""
        return (
            self.executor.run(),
            verify_old(self._book, self._rows.ended, self._clocks.wall_ms, self.executor.wake),
            forget_ended(self._book, self._clocks.wall_ms),
            bury_unknown(self._book, self._outbox, self._clocks.wall_ms, self._settings.language),
        )

    def told(self) -> dict[str, int | str]:
        """Its counters, and whose jobs are paused if any are."""
        jobs = told(self.executor.tally, len(self._calls), self._lanes.waiting, self._book.paused)
        return {**jobs, **self._group_links.counts.told()}

    def sources(self) -> tuple[Source, ...]:
        """What it counts, as metrics."""
        return (
            jobs_source(
                self.executor.tally,
                self._calls.took,
                running=lambda: len(self._calls),
                waiting=lambda: self._lanes.waiting,
                paused=lambda: self._book.paused,
            ),
            group_links_source(self._group_links.counts),
        )

    @property
    def share(self) -> float:
        """This worker's part of a rate that all workers share: its partitions of all."""
        return self._lanes.rates.share


def _there(settings: Settings) -> Iterator[str]:
    """What jobs may have been held for and is there by now, since the settings were changed."""
    if settings.agent_engine_url:
        yield NO_ENGINE
    if default_number(settings) is not None:
        yield NO_CREDENTIALS
    yield from REFUSED  # the calls will show it


def limits_of(settings: Settings) -> Limits:
    """The limits that an installation has set."""
    return Limits(
        concurrency=settings.executor_concurrency,
        weights=settings.organization_weights,
        rate_per_s=settings.channel_rate_per_s,
        batch_of_kind={GROUP_LINK: settings.group_link_batch_size},
    )
