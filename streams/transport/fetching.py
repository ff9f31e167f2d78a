"""The consumer's own thread: everything that talks to aiokafka's fetcher and group coordinator.

It differs from Faust's in what a fetch returns: the positions at which it began and ended, not only records.
The fetcher may drop what it has drained (a rebalance, a seek) and it jumps (retention, resets); with both
positions the ledger sees that, with records alone nobody does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from functools import partial
from time import monotonic
from typing import Any, NamedTuple

import structlog
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.consumer.fetcher import UNKNOWN_OFFSET, OffsetResetStrategy
from aiokafka.errors import CommitFailedError, ConsumerStoppedError, IllegalStateError
from aiokafka.structs import OffsetAndMetadata
from faust.transport.drivers import aiokafka as driver

from .batches import Record
from .errors import FenceRefused, TransportError
from .failure import end_process
from .foreign_names import install as read_foreign_names
from .lease import Lease, confirm, watch
from .ledger import Expected
from .ownership import Membership

log = structlog.get_logger(__name__)

LOOK = 0.2
"""Seconds between two looks at a possibly changed assignment while a fetch waits."""
FETCH_MAX_WAIT_MS = 500
"""How long the broker holds a fetch without news, and so the age that `stable_end` may have."""
IDLE = 0.02
"""Seconds before the next try when nothing may be fetched."""


class ChangelogMissing(TransportError):
    """A changelog topic doesn't exist or isn't assigned with its source: create it, then start again."""


class TopicsMissing(TransportError):
    """Topics that we consume don't exist, so nobody would be given them: create them, then start again."""


class Fetched(NamedTuple):
    """One partition's part of a fetch: the log's range `[start, end)` and the records in it."""

    start: int
    end: int
    records: Collection[Record]


def ask_at_once(fetcher: Any) -> None:
    """Let the fetcher of a new assignment ask for all committed offsets together.

    aiokafka asks for one after the other, and fetches nothing meanwhile: a recovery would wait for as many
    round trips to the coordinator as there are partitions.
    """
    update, strategy = fetcher._update_fetch_positions, fetcher._default_reset_strategy

    async def at_once(assignment: Any, node_id: int, partitions: Collection[Any]) -> bool:
        """Give every partition its position, or the order to find one."""
        states = [assignment.state_value(partition) for partition in partitions]
        unknown = [one for one in states if not (one.has_valid_position or one.awaiting_reset)]
        try:
            committed = await asyncio.gather(*(one.fetch_committed() for one in unknown))
        except asyncio.CancelledError:  # the assignment has gone: the fetcher doesn't expect it from here
            return False
        for one, found in zip(unknown, committed, strict=True):
            if one.has_valid_position or one.awaiting_reset:  # somebody has sought meanwhile
                continue
            if found.offset != UNKNOWN_OFFSET:
                one.reset_to(found.offset)
            elif strategy != OffsetResetStrategy.NONE:
                one.await_reset(strategy)
        needs_wakeup: bool = await update(assignment, node_id, partitions)
        return needs_wakeup

    fetcher._update_fetch_positions = at_once


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Owns the aiokafka consumer; every coroutine here runs in the thread's loop unless it says otherwise."""

    lease: Lease

    def __post_init__(self) -> None:
        super().__post_init__()
        self.lease = Lease(self.app.conf.broker_session_timeout)

    def _create_worker_consumer(self, transport: Any) -> AIOKafkaConsumer:
        consumer = super()._create_worker_consumer(transport)
        # Faust sets these only for exactly_once or not at all; the consumer reads them when it starts.
        consumer._isolation_level = "read_committed"
        consumer._fetch_max_wait_ms = FETCH_MAX_WAIT_MS
        return consumer

    async def on_start(self) -> None:
        """Start the aiokafka consumer and watch its requests for signs of life."""
        read_foreign_names()
        await super().on_start()
        if not self.app.client_only:
            static = self.app.conf.consumer_group_instance_id is not None
            watch(self._consumer._coordinator, self.lease, self._replaced if static else None)
            ask_at_once(self._consumer._fetcher)
            coordinator = self._consumer._coordinator
            coordinator._perform_assignment = partial(self._assign, coordinator._perform_assignment)

    def _replaced(self) -> None:
        name = self.app.conf.consumer_group_instance_id
        end_process(FenceRefused(f"another process has joined as {name!r}, or the session has ended"))

    async def crash(self, reason: BaseException) -> None:
        """A failed fetch, commit or join ends the process."""
        end_process(reason)

    # -- subscribing

    async def subscribe(self, topics: Iterable[str]) -> None:
        """Join the group (called from the main loop), once every changelog topic is visible."""
        await self.call_thread(self._until_visible, set(self.app.tables.changelog_topics))
        await super().subscribe(topics)

    async def _until_visible(self, topics: Collection[str]) -> None:
        """A topic just made may be missing in the metadata; Faust's assignor would leave it out silently."""
        client = self._consumer._client
        deadline = monotonic() + self.app.conf.broker_request_timeout
        while True:
            cluster = await client.fetch_all_metadata()
            missing = sorted(topic for topic in topics if not cluster.partitions_for_topic(topic))
            if not missing:
                return
            if monotonic() > deadline:
                raise ChangelogMissing(f"create the changelog topics {missing}")
            await asyncio.sleep(0.1)

    async def _assign(self, assign: Callable[[Any], Awaitable[Any]], response: Any) -> Any:
        """As the group's leader, give out the partitions once all our topics are known.

        A broker that has just come back may know none of them yet. Faust's assignor leaves out what is
        missing with a warning, and the whole group would idle until somebody looks again in five minutes.
        """
        client, topics = self._consumer._client, self._consumer._subscription.subscription.topics
        deadline = monotonic() + self.lease.duration
        while missing := sorted(topic for topic in topics if not client.cluster.partitions_for_topic(topic)):
            if monotonic() > deadline:
                end_process(TopicsMissing(f"create the topics {missing}, or see why Kafka doesn't show them"))
            log.warning("waiting for topics before partitions are given out", missing=missing)
            await client.force_metadata_update()
            await asyncio.sleep(0.1)
        return await assign(response)

    # -- positions

    async def committed(self, partitions: Collection[Any]) -> Mapping[Any, int | None]:
        """The group's committed offsets, asked from the main loop in one request for all partitions."""
        found = await self.call_thread(self._committed, list(partitions))
        return {partition: found.get(partition) for partition in partitions}

    async def _committed(self, partitions: list[Any]) -> dict[Any, int]:
        wanted = {TopicPartition(tp.topic, tp.partition): tp for tp in partitions}
        answer = await self._consumer._coordinator.fetch_committed_offsets(list(wanted))
        return {wanted[tp]: meta.offset for tp, meta in answer.items()}

    async def _commit(self, offsets: Mapping[Any, int]) -> bool:
        """Commit what is assigned to us; False: it was refused, since the partitions are going or gone."""
        assigned = self.assignment()
        ours = {
            TopicPartition(tp.topic, tp.partition): OffsetAndMetadata(offset, "")
            for tp, offset in offsets.items()
            if tp in assigned
        }
        try:
            await self._ensure_consumer().commit(ours)
        except (CommitFailedError, IllegalStateError) as error:
            self.consumer.commits_refused += 1
            log.warning("commit refused, the partitions are going", reason=str(error))
            return False
        except Exception as error:
            await self.crash(error)
        return True

    def stable_end(self, partition: Any) -> int | None:
        """See `Consumer.stable_end`. Called from the main loop: reads plain attributes only."""
        subscription = self._consumer._subscription.subscription if self._consumer else None
        assignment = subscription.assignment if subscription else None
        state = assignment.state_value(partition) if assignment else None
        if state is None:
            return None
        end: int | None = state.lso if state.lso is not None else state.highwater
        return end

    # -- membership

    def membership(self, generation: int) -> Membership:
        """As whom we were assigned partitions in `generation`. Called from the main loop."""
        coordinator = self._ensure_consumer()._coordinator
        static = self.app.conf.consumer_group_instance_id is not None
        return Membership(coordinator.member_id, generation, static)

    async def confirm(self, generation: int) -> None:
        """Ask the coordinator whether `generation` is still ours (called from the main loop).

        Raises FenceRefused.
        """
        timeout = self.app.conf.broker_session_timeout
        if self._consumer is None:
            raise FenceRefused("the consumer has not been started")
        await self.call_thread(confirm, self._consumer._coordinator, generation, timeout)

    # -- fetching

    async def _fetch_records(
        self,
        consumer: AIOKafkaConsumer,
        active_partitions: Mapping[Any, Expected],
        timeout: float | None = None,
        max_records: int | None = None,
    ) -> dict[Any, Fetched]:
        """Fetch of `active_partitions` (never changed here); returns those that moved or stand elsewhere."""
        fetcher = consumer._fetcher
        subscriptions = fetcher._subscriptions
        deadline = monotonic() + (timeout or 0)
        while True:
            if consumer._closed or fetcher._closed:
                raise ConsumerStoppedError
            assignment, before = self._positions(subscriptions, active_partitions)
            if not before:  # an empty set would mean "all partitions" to aiokafka
                await asyncio.sleep(IDLE)
                return {}
            with subscriptions.fetch_context():
                records = await fetcher.fetched_records(before.keys(), timeout=0, max_records=max_records)
            moved = {}
            for partition, position in before.items():
                after = assignment.state_value(partition)._position
                if after is None:  # out of range: aiokafka is looking for the log's start
                    continue
                # the position also moves without a record: aborted transactions, control records
                if partition in records or after != active_partitions[partition].offset:
                    moved[partition] = Fetched(position, after, records.get(partition, ()))
            left = deadline - monotonic()
            if moved or left <= 0:
                return moved
            await self._news(fetcher, min(left, LOOK))

    def _positions(self, subscriptions: Any, wanted: Collection[Any]) -> tuple[Any, dict[Any, int]]:
        """Where the fetcher stands in the wanted partitions; empty when nothing may be fetched now."""
        subscription = subscriptions.subscription
        assignment = subscription.assignment if subscription else None
        if not assignment or subscriptions.reassignment_in_progress or not self.consumer.flow_active:
            return None, {}
        positions = {
            partition: assignment.state_value(partition)._position
            for partition in wanted
            if partition in assignment.tps
        }
        return assignment, {p: at for p, at in positions.items() if at is not None}

    @staticmethod
    async def _news(fetcher: Any, timeout: float) -> None:
        """Wait until the fetcher has new records or an error, at most `timeout` seconds."""
        waiter = fetcher._create_fetch_waiter()
        done, _ = await asyncio.wait([waiter], timeout=timeout)
        if done:
            waiter.result()
        else:
            waiter.cancel()
