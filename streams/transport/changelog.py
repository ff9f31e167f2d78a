"""The half of a table that deals with its changelog: what is read, from where, and who may write it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from time import monotonic
from typing import Any, Generic, TypeVar

import faust
import structlog
from faust.types import TP

from .errors import StateIncomplete
from .failure import end_process, vital
from .ledger import Batch
from .ownership import OnOwned, OnRevoked
from .producer import Item
from .snapshots import Snapshots
from .state import Partition, State
from .token import MARKER

log = structlog.get_logger(__name__)

V = TypeVar("V")

SNAPSHOT_EVERY, SNAPSHOT_INTERVAL = 20_000, 30.0
"""Changelog records after which a partition is written to local disk anew; seconds between two looks."""
FINISH = 2.0
"""Seconds that a graceful stop spends on snapshots."""


class ChangelogTable(faust.Table, Generic[V]):
    """Recovers, follows and claims the partitions of a changelog."""

    encode: Callable[[V], bytes]
    """A value as it stands in the changelog."""

    def __init__(
        self,
        app: Any,
        *,
        encode: Callable[[V], bytes],
        decode: Callable[[bytes], V],
        snapshots: bool,
        **kwargs: Any,
    ) -> None:
        self.local: State[V] = State(decode)
        self.encode, self._decode = encode, decode
        self.when_owned_callbacks: list[OnOwned] = []
        self.when_revoked_callbacks: list[OnRevoked] = []
        self._unsettled: set[asyncio.Future[dict[int, int]]] = set()
        self._began = monotonic(), 0
        """When the present recovery began, and how many records had been read by then."""
        self._to_restore: list[int] = []
        self._sources: dict[int, Any] = {}
        """Where Faust's recovery keeps the offset of each partition."""
        self._resumed: dict[int, int] = {}
        """What each partition covered when its recovery began."""
        self.snapshots = (
            Snapshots(self, lambda: Path(app.conf.tabledir), SNAPSHOT_EVERY, SNAPSHOT_INTERVAL)
            if snapshots
            else None
        )
        """What is kept on local disk."""
        super().__init__(app, **kwargs)

    @property
    def owned(self) -> set[int]:
        """The partitions assigned to this worker, recovered or not."""
        return set(self.local.partitions)

    # -- assignment

    async def on_start(self) -> None:
        """Begin to keep snapshots."""
        await super().on_start()
        if self.snapshots is not None:
            self.add_future(vital(self.snapshots.run)())

    async def on_stop(self) -> None:
        """A graceful stop gives the partitions up, too."""
        await self.app.consumer.ownership.give_up()
        if self.snapshots is not None:
            await self.snapshots.finish(FINISH)
        await super().on_stop()

    def reset_state(self) -> None:
        """Drop what is kept on local disk (`faust reset`)."""
        if self.snapshots is not None:
            self.snapshots.drop()

    async def on_rebalance(self, *args: Any, **kwargs: Any) -> None:
        """Forget the partitions that went; let recovery read the others from where their state ends."""
        await super().on_rebalance(*args, **kwargs)
        began, read_before = monotonic(), self.local.read
        assignor, recovery, topic = self.app.assignor, self.app.tables.recovery, self.topic_name
        ours = {tp.partition for tp in assignor.assigned_actives() if tp.topic == topic}
        followed = {tp.partition for tp in assignor.assigned_standbys() if tp.topic == topic} - ours
        if not self.app.consumer.stayed_member:
            self.local.forget_owned()
        self._to_restore = sorted(self.local.assign(ours, followed))
        self._sources = {**dict.fromkeys(followed, recovery.standby_offsets)}
        self._sources.update(dict.fromkeys(ours, recovery.active_offsets))
        self._tell_offsets()
        self._began = began, read_before
        self.app.consumer.ownership.begin()

    async def restore(self) -> None:
        """Fill what starts empty from local disk, before recovery asks where to read from.

        Not in `on_rebalance`: no heartbeat is sent before that returns.
        """
        for number in self._to_restore:
            state = self.local.find(number)
            if self.snapshots is not None and state is not None and state.covered is None:
                await self.snapshots.restore(number, state, self._decode)
        self._tell_offsets()

    def _tell_offsets(self) -> None:
        """Let Faust's recovery read each partition from where its state ends."""
        for number, offsets in self._sources.items():
            state = self.local.find(number)
            covered = state.covered if state is not None else None
            self._resumed[number] = covered or 0
            offsets[TP(self.topic_name, number)] = None if covered is None else covered - 1

    async def on_recovery_completed(self, active_tps: set[Any], standby_tps: set[Any]) -> None:
        """Faust has read the changelogs of all tables."""
        await self.app.consumer.ownership.recovered()

    async def tell_faust(self) -> None:
        """Let Faust's own callbacks know that this table is recovered."""
        began, read_before = self._began
        log.info(
            "table recovered", table=self.name, partitions=sorted(self.owned), keys=len(self.local),
            read=self.local.read - read_before, took_s=round(monotonic() - began, 2),
        )  # fmt: skip
        recovery = self.app.tables.recovery
        await super().on_recovery_completed(
            recovery.actives_for_table[self], recovery.standbys_for_table[self]
        )

    # -- recovery

    def apply_changelog_batch(self, batch: Iterable[Any]) -> None:
        """Take over changelog records (called by Faust's recovery with a few batches)."""
        try:
            for event in batch:
                self._apply(event.message)
        except Exception as error:  # Faust would log it and go on with a hole in the state
            end_process(error)

    def _apply(self, message: Any) -> None:
        batch: Batch[Any, Any] = message.batch
        tp, consumer = message.tp, self.app.consumer
        state = self.local.find(tp.partition)
        if tp.topic != self.topic_name or state is None or state.headers:
            return  # late: it was assigned to another, or is claimed, and newer state was put meanwhile
        first = consumer.ledger.is_live(batch) and batch.start == consumer.ledger.base(tp)
        if self.local.apply(tp.partition, batch.start, batch.end, first, batch.records):
            return
        # what lies in between was lost on its way here, or this is of an older assignment
        recovery, expected = self.app.tables.recovery, state.covered or 0
        for offsets in (recovery.active_offsets, recovery.standby_offsets):
            if tp in offsets:
                offsets[tp] = expected - 1
        if consumer.ledger.is_live(batch):
            consumer.read_again(tp, expected)

    async def is_recovered(self) -> bool:
        """Whether every partition is covered up to where its changelog ended; raises StateIncomplete if not.

        False: it isn't known yet. A recovery that was interrupted by a rebalance may still come to its end,
        with the ends of the assignment before; recovery of the present one follows.
        """
        consumer, topic = self.app.consumer, self.topic_name
        ends = {number: consumer.recovery_end(TP(topic, number)) for number in self.local.partitions}
        if None in ends.values():
            return False
        reached = {number: state.covered or 0 for number, state in self.local.partitions.items()}
        behind = [TP(topic, number) for number in reached if reached[number] < ends[number]]
        starts = await consumer.earliest_offsets(*behind) if behind else {}
        for number, state in self.local.partitions.items():
            place, end = TP(topic, number), ends[number]
            if self._resumed[number] > end:
                raise StateIncomplete(f"{topic}-{number} was made anew or cut to {end}, start again")
            if place in starts:
                if starts[place] < end:
                    raise StateIncomplete(f"{topic}-{number}: read {reached[number]} of {end}, start again")
                state.empty()  # all that it held was deleted
        return True

    def progress(self) -> tuple[int, int]:
        """Changelog records that are covered, and left to read, as far as it is known yet."""
        read = left = 0
        for number, state in self.local.partitions.items():
            covered = state.covered or 0
            end = self.app.consumer.recovery_end(TP(self.topic_name, number))
            read += covered
            left += max(0, (end or 0) - covered)
        return read, left

    async def claim(self, generation: int) -> None:
        """Take a token for each partition and make it durable before anything else is written."""
        states = dict(self.local.partitions)
        for state in states.values():
            state.claim(generation)
        markers: list[Item] = [(MARKER, b"", number, state.headers) for number, state in states.items()]
        self._cover(states, await self.app.producer.send_batch(self.topic_name, markers))

    @property
    def topic_name(self) -> str:
        """Name of the changelog."""
        name: str = self.changelog_topic_name
        return name

    async def topic_id(self) -> str:
        """Kafka's id of the changelog."""
        found: str = await self.app.producer.topic_id(self.topic_name)
        return found

    async def confirm(self) -> None:
        """Return when the coordinator confirmed that our partitions are ours. Raises FenceRefused."""
        await self.app.consumer.confirm()

    # -- durability

    async def settled(self, partition: Partition[V], timeout: float) -> bool:
        """Wait until all that was put in a partition so far is durable; False: not in `timeout` seconds."""
        mark, deadline = partition.dirty, monotonic() + timeout
        while mark and partition.dirty is mark and monotonic() < deadline:  # noqa: ASYNC110  # others flush
            await asyncio.sleep(0.05)
        if mark and partition.dirty is mark:
            return False
        if not self._unsettled:
            return True
        _, pending = await asyncio.wait(list(self._unsettled), timeout=max(0.0, deadline - monotonic()))
        return not pending

    def _cover(self, written: Mapping[int, Partition[V]], highest: Mapping[int, int]) -> None:
        """What we wrote ourselves needs no reading when the partition stays ours through a rebalance."""
        for partition, state in written.items():
            state.covered = max(state.covered or 0, highest[partition] + 1)
