"""The half of the consumer that deals with offsets: seek, deliver, acknowledge and commit by the ledger."""

from __future__ import annotations

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from typing import Any

import structlog
from aiokafka.errors import IllegalStateError
from faust.transport.drivers import aiokafka as driver

from .batches import Batched, Record, cut, message_of
from .failure import vital
from .fetching import ConsumerThread
from .ledger import Batch, Ledger

log = structlog.get_logger(__name__)


class Delivery(driver.Consumer):
    """Delivers what the ledger accepts, and commits what the ledger knows to be finished."""

    max_batch: int = 1000
    """Records per batch: bounds how long one batch holds the event loop."""

    refetches: int = 0
    """Times the fetcher stood elsewhere than it should."""
    stale_fetches: int = 0
    """Fetches that were overtaken by a seek."""
    rereads: int = 0
    """Times that a table missed records of its changelog and had them read again."""
    holes: int = 0
    """Offsets that were passed without a record."""

    on_log_remade: Callable[[str], Awaitable[None]] | None = None
    """Awaited with a topic's name before its log, cut or made anew, is read from its start."""

    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.ledger: Ledger[Any, Record] = Ledger()
        self.assignments = 0
        """Counts assignments; what was learnt in an earlier one may be stale."""
        self._ends: dict[Any, tuple[int, int]] = {}
        super().__init__(*args, **kwargs)

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def stop_flow(self) -> None:
        """Deliver nothing more until the next seek."""
        self.ledger.suspend()
        super().stop_flow()

    # -- ends of changelogs

    async def highwaters(self, *partitions: Any) -> Mapping[Any, int]:
        """The ends of logs. Faust's recovery asks for those of its changelogs when it begins."""
        asked_in = self.assignments
        ends: Mapping[Any, int] = await super().highwaters(*partitions)
        self._ends.update({tp: (asked_in, end) for tp, end in ends.items()})
        return ends

    def recovery_end(self, tp: Any) -> int | None:
        """Where a changelog ended when recovery last began; None if that was in an earlier assignment."""
        asked_in, end = self._ends.get(tp, (-1, -1))
        return end if asked_in == self.assignments else None

    # -- seek

    async def perform_seek(self) -> None:
        """Put the fetcher to the committed offsets, or where the log begins (ends) when there are none."""
        wanted = self.ledger.rewind(tp for tp in self.ledger if not self._is_changelog_tp(tp))
        if not wanted:
            return
        committed = await self._thread.committed(list(wanted))
        unset = [tp for tp, offset in committed.items() if offset is None]
        start: dict[Any, int] = {tp: offset for tp, offset in committed.items() if offset is not None}
        if unset:
            earliest = self.app.conf.consumer_auto_offset_reset == "earliest"
            start.update(
                await (self._thread.earliest_offsets if earliest else self._thread.highwaters)(*unset)
            )
        await super().seek_wait(start)
        for tp, offset in start.items():
            if self.ledger.settle(wanted[tp], tp, offset):
                self._forget(tp, offset)

    async def seek_wait(self, partitions: Mapping[Any, int]) -> None:
        """Seek (Faust's recovery uses it for changelogs)."""
        if self.app.rebalancing and any(offset is None or offset < 0 for offset in partitions.values()):
            raise IllegalStateError("offsets of an older generation")  # recovery starts over
        await self._seek_from(self.ledger.rewind(partitions), partitions)

    async def _seek_from(self, epochs: Mapping[Any, int], partitions: Mapping[Any, int]) -> None:
        await super().seek_wait(partitions)
        for tp, epoch in epochs.items():
            self.ledger.settle(epoch, tp, partitions[tp])

    def read_again(self, tp: Any, offset: int) -> None:
        """Records of a changelog were lost between the ledger and the table: go back, at once and beside."""
        self.rereads += 1
        log.warning("reading a changelog again", tp=str(tp), offset=offset)
        epochs = self.ledger.rewind([tp])
        self.add_future(vital(self._seek_from)(epochs, {tp: offset}))

    async def _seek(self, partition: Any, offset: int) -> None:
        epochs = self.ledger.rewind([partition])
        await super()._seek(partition, offset)
        for epoch in epochs.values():
            self.ledger.settle(epoch, partition, offset)

    def _forget(self, tp: Any, offset: int) -> None:
        """Faust's own bookkeeping isn't used; keep it empty."""
        self._acked.pop(tp, None)
        self._acked_index.pop(tp, None)
        self._read_offset[tp], self._committed_offset[tp] = None, offset or None

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        """Gaps lie inside the ledger's ranges."""

    # -- delivery

    def _is_batched(self, topic: str) -> bool:
        channels = self.app.topics._topic_name_index.get(topic)
        return bool(channels) and all(isinstance(channel.schema, Batched) for channel in channels)

    def _batch_size(self, tp: Any) -> int:
        return self.max_batch if self._is_batched(tp.topic) else 1

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[Any, Any]]:
        """Fetch once and yield (partition, message) for what the ledger accepts."""
        if not self.flow_active:
            await self.wait(self.can_resume_flow)
        wanted = self.ledger.fetchable(self._get_active_partitions())
        if not wanted:
            await self.sleep(0.05)
            return
        runs: list[tuple[Any, Iterator[tuple[int, int, Sequence[Record]]]]] = []
        for tp, (start, end, records) in (await self._getmany(wanted, timeout)).items():
            expected = self.ledger.expected(wanted[tp].epoch, tp)
            if expected is None:
                self.stale_fetches += 1  # overtaken by a seek, which delivers it again
            elif start != expected:
                await self._refetch(tp, wanted[tp].epoch, start, expected)
            else:
                self.holes += end - start - len(records)
                runs.append((tp, cut(start, end, records, self._batch_size(tp))))
        while runs:  # round robin over partitions
            for run in list(runs):
                tp, pieces = run
                piece = next(pieces, None)
                batch = None
                if piece is not None and self.flow_active and not self.should_stop:
                    tracked = self.app.topics.acks_enabled_for(tp.topic)
                    batch = self.ledger.accept(wanted[tp].epoch, tp, *piece, tracked=tracked)
                if batch is None:
                    runs.remove(run)
                elif batch.records or (self._is_changelog_tp(tp) and self._is_batched(tp.topic)):
                    batch.message = self._batch_message(tp, batch)
                    self._read_offset[tp] = None  # else _drain_messages drops messages and fills gaps
                    self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
                    yield tp, batch.message

    def _batch_message(self, tp: Any, batch: Batch[Any, Record]) -> Any:
        if self._is_batched(tp.topic):
            self.app.monitor.messages_received_total += len(batch.records) - 1
            # recovery counts offsets, and a changelog may end in some that carry no record
            offset = batch.end - 1 if self._is_changelog_tp(tp) else batch.records[-1].offset
            message = message_of(tp, batch.records, offset, self.app.consumer_generation_id)
        else:
            message = super()._to_message(tp, batch.records[-1])
        message.batch = batch
        return message

    async def _refetch(self, tp: Any, epoch: int, start: int, expected: int) -> None:
        """The fetcher stands elsewhere than it should: put it back, or to where the log begins."""
        self.refetches += 1
        log.warning("fetched elsewhere than expected", tp=str(tp), start=start, expected=expected)
        first, end = (await self.earliest_offsets(tp))[tp], (await self._thread.highwaters(tp))[tp]
        if first <= expected <= end:
            await super().seek_wait({tp: expected})
        elif self._is_changelog_tp(tp):  # nothing is committed there; whether it's enough the table knows
            await self.seek_wait({tp: first})
        elif expected > end:
            log.critical("the log was cut or made anew, reading it again", tp=str(tp), end=end, at=expected)
            if self.on_log_remade is not None:
                await self.on_log_remade(tp.topic)
            await self.seek_wait({tp: first})
        elif self.ledger.accept(epoch, tp, expected, first, []) is not None:
            log.critical("deleted before they were read", tp=str(tp), start=expected, end=first)
            await super().seek_wait({tp: first})

    # -- acknowledge and commit

    def ack(self, message: Any) -> bool:
        """The streams have finished with a message."""
        if message.acked or message.generation_id != self.app.consumer_generation_id:
            return False
        message.acked = True
        self._unacked_messages.discard(message)
        return self.ledger.finish(message.batch)

    def _filter_tps_with_pending_acks(self, topics: Collection[Any] | None = None) -> Iterable[Any]:
        return [
            tp
            for tp in self.ledger
            if not self._is_changelog_tp(tp) and (topics is None or tp in topics or tp.topic in topics)
        ]

    def _new_offset(self, tp: Any) -> int | None:
        for batch in list(self.ledger.in_flight(tp)):  # streams that acknowledge alone only set the flag
            message: Any = batch.message
            if message is not None and not message.acked:
                break
            self.ledger.finish(batch)
        self._acked.pop(tp, None)
        self._acked_index.pop(tp, None)
        return self.ledger.commit_point(tp)

    def _should_commit(self, tp: Any, offset: int) -> bool:
        return True  # the ledger knows what the coordinator has

    async def _commit(self, offsets: Mapping[Any, int]) -> bool:
        epochs = {tp: self.ledger.epoch(tp) for tp in offsets}
        done: bool = await super()._commit(offsets)
        if done:
            for tp, offset in offsets.items():
                self.ledger.committed(epochs[tp], tp, offset)
        return done
