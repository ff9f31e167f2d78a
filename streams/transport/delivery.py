"""Between the fetcher and the streams: deliver, acknowledge and commit by the ledger."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from .batches import Batched, Record, cut, message_of, size_of
from .ledger import Batch, Expected
from .seeking import Seeking

HELD = 0.02
"""Seconds until the next look when all that was fetched waits for room."""


class _Run(NamedTuple):
    """What was fetched of a partition and isn't delivered yet."""

    epoch: int
    pieces: Iterator[tuple[int, int, Sequence[Record]]]


class Delivery(Seeking):
    """Delivers what the ledger accepts, and commits what the ledger knows to be finished."""

    max_batch: int = 1000
    """Records per batch: bounds how long one batch holds the event loop."""
    max_batch_bytes: int = 4 * 1024 * 1024
    """Bytes of keys and values per batch; a single larger record is a batch of its own."""
    max_bytes: int = 64 * 1024 * 1024
    """Bytes delivered to streams and not finished, above which nothing more is delivered."""

    commits_refused: int = 0
    """Commits of partitions that were going or gone."""
    stale_fetches: int = 0
    """Fetches that were overtaken by a seek."""
    holes: int = 0
    """Offsets that were passed without a record."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._runs: dict[Any, _Run] = {}
        self._room = asyncio.Event()
        super().__init__(*args, **kwargs)

    # -- delivery

    def _is_batched(self, topic: str) -> bool:
        channels = self.app.topics._topic_name_index.get(topic)
        return bool(channels) and all(isinstance(channel.schema, Batched) for channel in channels)

    def on_buffer_full(self, tp: Any) -> None:
        """Faust would stop the partition; here what was fetched waits, and only that."""

    def on_buffer_drop(self, tp: Any) -> None:
        """A stream's buffer has room again."""
        self._room.set()

    async def getmany(self, timeout: float) -> AsyncIterator[tuple[Any, Any]]:
        """Fetch once and yield (partition, message) for what the ledger accepts and the streams can take.

        What finds no room is kept, and its partition isn't fetched meanwhile: a slow stream holds up nobody
        else.
        """
        if not self.flow_active:
            await self.wait(self.can_resume_flow)
        wanted = self.ledger.fetchable(self._get_active_partitions() - self._runs.keys())
        if wanted:
            await self._fetch(wanted, 0 if self._runs else timeout)
        elif not self._runs:
            await self.sleep(0.05)
            return
        delivered = True
        while delivered:  # round robin over partitions
            delivered = False
            room = self.max_bytes - self._bytes_in_flight()
            for tp in list(self._runs):
                if room <= 0 or self._is_full(tp.topic):
                    continue
                batch = self._next(tp)
                delivered = True
                if batch is not None and (batch.records or self._carries_offsets(tp)):
                    room -= batch.size
                    message = self._batch_message(tp, batch)
                    if self.app.topics.acks_enabled_for(tp.topic):
                        batch.message = message
                    self._read_offset[tp] = None  # else _drain_messages drops messages and fills gaps
                    self.app.monitor.track_tp_end_offset(tp, self.highwater(tp))
                    yield tp, message
        if self._runs:
            self._room.clear()
            await self.wait(self._room, timeout=HELD)

    async def _fetch(self, wanted: Mapping[Any, Expected], timeout: float) -> None:
        for tp, (start, end, records) in (await self._getmany(wanted, timeout)).items():
            epoch, _ = wanted[tp]
            expected = self.ledger.expected(epoch, tp)
            if expected is None:
                self.stale_fetches += 1  # overtaken by a seek, which delivers it again
            elif start != expected:
                await self._refetch(tp, epoch, start, expected)
            else:
                self.holes += end - start - len(records)
                size = self.max_batch if self._is_batched(tp.topic) else 1
                self._runs[tp] = _Run(epoch, cut(start, end, records, size, self.max_batch_bytes))

    def _next(self, tp: Any) -> Batch[Any, Record] | None:
        """The next batch of what was fetched of a partition; None: it is delivered, or overtaken."""
        epoch, pieces = self._runs[tp]
        piece = next(pieces, None)
        batch = None
        if piece is not None and self.flow_active and not self.should_stop:
            tracked = self.app.topics.acks_enabled_for(tp.topic)
            batch = self.ledger.accept(epoch, tp, *piece, tracked=tracked)
        if batch is None:
            del self._runs[tp]
        else:
            batch.size = size_of(batch.records)
        return batch

    def _is_full(self, topic: str) -> bool:
        channels = self.app.topics._topic_name_index.get(topic, ())
        return any(channel.queue.full() for channel in channels)

    def _bytes_in_flight(self) -> int:
        return sum(batch.size for tp in self.ledger for batch in self.ledger.in_flight(tp))

    def _carries_offsets(self, tp: Any) -> bool:
        """Recovery counts offsets, and a changelog may end in some that carry no record."""
        return self._is_changelog_tp(tp) and self._is_batched(tp.topic)

    def _batch_message(self, tp: Any, batch: Batch[Any, Record]) -> Any:
        if self._is_batched(tp.topic):
            offset = batch.end - 1 if self._carries_offsets(tp) else batch.records[-1].offset
            message = message_of(tp, batch.records, offset, self.app.consumer_generation_id)
        else:
            message = super()._to_message(tp, batch.records[-1])
        message.batch = batch
        return message

    # -- acknowledge and commit

    def ack(self, message: Any) -> bool:
        """The streams have finished with a message."""
        if message.acked or message.generation_id != self.app.consumer_generation_id:
            return False
        if not message.tracked:  # a stream passed it by while the flow was suspended
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
