"""Table of typed values: one changelog record per touched key and flush, recovered in bulk."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any, Generic, TypeVar

import faust
import structlog
from faust.stores import memory
from faust.types import TP

from .batches import Batched
from .failure import StateIncomplete, end_process
from .ledger import Batch
from .producer import Item
from .state import Partition, State
from .token import MARKER

log = structlog.get_logger(__name__)

V = TypeVar("V")
OnOwned = Callable[[set[int]], Awaitable[None] | None]
OnRevoked = Callable[[], Awaitable[None] | None]

COMPACTION_LAG_MS = 30 * 60 * 1000
"""A changelog record stays readable at least so long, even when a newer one of its key exists."""


class _View(Mapping[bytes, Any]):
    """The state as the read-only mapping that Faust's tables have underneath."""

    def __init__(self, state: State[Any]) -> None:
        self._state = state

    def __getitem__(self, key: bytes) -> Any:
        for partition in self._state.partitions.values():
            if key in partition.values:
                return partition.values[key]
        raise KeyError(key)

    def __iter__(self) -> Iterator[bytes]:
        for partition in self._state.partitions.values():
            yield from partition.values

    def __len__(self) -> int:
        return len(self._state)


class Store(memory.Store):
    """Store `batchmem://`: shows the state of its `Table`, which does all the work itself."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.data = _View(self.table.local)


class Table(faust.Table, Generic[V]):
    """A Faust table whose keys are bytes and whose values go through `encode` and `decode`.

    Written by `put` and `flush`, from an agent's batch or from whatever works beside the streams between
    `when_owned` and `when_revoked`. Only keys of owned partitions are held.
    """

    fenced: bool = True
    """Whether `flush` looks at the lease; False only for tests that show what the lease prevents."""

    def __init__(
        self,
        app: Any,
        *,
        encode: Callable[[V], bytes] = bytes,  # type: ignore[assignment]  # default for bytes
        decode: Callable[[bytes], V] = bytes,  # type: ignore[assignment]  # default for bytes
        **kwargs: Any,
    ) -> None:
        self.local: State[V] = State(decode)
        self._encode = encode
        self._decode = decode
        self._on_owned: list[OnOwned] = []
        self._on_revoked: list[OnRevoked] = []
        self._turn = asyncio.Lock()
        self._assignment = 0  # counts revocations; a recovery that began before the newest one is stale
        self._recovering: int | None = None
        self._told = False
        serializers = {"key_serializer": "raw", "value_serializer": "raw"}
        kwargs.setdefault("schema", Batched(key_type=bytes, value_type=bytes, **serializers))
        kwargs["extra_topic_configs"] = {
            "min.compaction.lag.ms": COMPACTION_LAG_MS,
            **(kwargs.get("extra_topic_configs") or {}),
        }
        kwargs["recovery_buffer_size"] = 2  # in batches; 1 has a meaning of its own in Faust's recovery
        super().__init__(app, key_type=bytes, value_type=bytes, **kwargs)

    def info(self) -> Mapping[str, Any]:
        """The constructor's arguments (Faust clones tables by them)."""
        return {**super().info(), "encode": self._encode, "decode": self._decode}

    # -- use

    def get(self, key: bytes, partition: int | None = None) -> V | None:
        """The value of `key`, or None; quicker when `partition`, that of the key's records, is given."""
        return self.local.get(key, partition)

    def put(self, key: bytes, value: V | None, partition: int) -> None:
        """Set or (None) delete a key here and now; it is written to the changelog by the next `flush`.

        `partition` is that of the source records. Raises NotOwned.
        """
        self.local.put(key, value, partition)

    def flush(self) -> asyncio.Future[None]:
        """Write every key put since the last flush, once; the future is done when all of it is durable.

        The lease is looked at here and not only before the work: a process that was stopped in between must
        not write. Raises LeaseLost.
        """
        result: asyncio.Future[None] = self.app.loop.create_future()
        if not self.local.is_dirty:
            result.set_result(None)
            return result
        if self.fenced:
            self.app.consumer.check_lease()
        taken = self.local.take_dirty()
        encode = self._encode

        def items() -> Iterator[Item]:
            for partition, (state, keys) in taken.items():
                values, headers = state.values, state.headers
                for key in keys:
                    yield key, encode(values[key]) if key in values else None, partition, headers

        def durable(sent: asyncio.Future[dict[int, int]]) -> None:
            if not sent.cancelled() and sent.exception() is None:
                self._cover({partition: state for partition, (state, _) in taken.items()}, sent.result())
                if not result.done():
                    result.set_result(None)

        self.app.producer.send_batch(self.changelog_topic_name, items()).add_done_callback(durable)
        return result

    def _cover(self, written: Mapping[int, Partition[V]], highest: Mapping[int, int]) -> None:
        """What we wrote ourselves needs no reading when the partition stays ours through a rebalance."""
        for partition, state in written.items():
            state.covered = max(state.covered or 0, highest[partition] + 1)

    def partition_items(self, partition: int) -> Iterator[tuple[bytes, V]]:
        """Keys and values of one owned partition (nothing when it isn't); don't put while iterating."""
        return self.local.items(partition)

    @property
    def owned(self) -> set[int]:
        """The partitions assigned to this worker, recovered or not."""
        return set(self.local.partitions)

    def __len__(self) -> int:
        return len(self.local)

    def on_key_set(self, key: Any, value: Any) -> None:
        """Refuse Faust's own way of writing."""
        raise TypeError("use table.put(key, value, partition) and table.flush()")

    def on_key_del(self, key: Any) -> None:
        """Refuse Faust's own way of writing."""
        raise TypeError("use table.put(key, None, partition) and table.flush()")

    # -- ownership

    def when_owned(self, callback: OnOwned) -> OnOwned:
        """Call `callback` after each recovery, before the streams resume, with all partitions now ours.

        Usable as a decorator. An exception in it ends the process.
        """
        self._on_owned.append(callback)
        return callback

    def when_revoked(self, callback: OnRevoked) -> OnRevoked:
        """Await `callback` before the partitions are given up, on a rebalance and on a graceful stop.

        The streams are idle by then; writing, flushing, sending and fencing still work, and nothing must be
        left for later. Called only after `when_owned` was. An exception in it ends the process.
        """
        self._on_revoked.append(callback)
        return callback

    async def give_up(self) -> None:
        """Tell those who work beside the streams that the partitions are going, and wait for them."""
        self._assignment += 1
        async with self._turn:
            if not self._told:
                return
            self._told = False
            for callback in self._on_revoked:
                await _call(callback)

    async def on_stop(self) -> None:
        """A graceful stop gives the partitions up, too."""
        await self.give_up()
        await super().on_stop()

    async def on_rebalance(self, *args: Any, **kwargs: Any) -> None:
        """Forget the partitions that went; let recovery read the others from where their state ends."""
        await super().on_rebalance(*args, **kwargs)
        offsets = self.app.tables.recovery.active_offsets
        topic = self.changelog_topic_name
        assigned = {tp.partition for tp in self.app.assignor.assigned_actives() if tp.topic == topic}
        self.local.assign(assigned)
        for number in assigned:
            covered = self.local.at(number).covered
            offsets[TP(topic, number)] = None if covered is None else covered - 1
        self._recovering = self._assignment

    async def on_recovery_completed(self, active_tps: set[Any], standby_tps: set[Any]) -> None:
        """Check that the state is whole and tell those who wait for it."""
        try:
            async with self._turn:
                # Faust says so, too, when a stop cuts the reading short
                if self.app.should_stop or self._recovering != self._assignment:
                    return
                if not await self._is_recovered():
                    return
                self._recovering = None
                await self._claim()
                await super().on_recovery_completed(active_tps, standby_tps)
                self._told = True
                for callback in self._on_owned:
                    await _call(callback, self.owned)
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # Faust would drop it
            end_process(error)

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
        tp, ledger = message.tp, self.app.consumer.ledger
        if self._recovering is None or tp.topic != self.changelog_topic_name:
            return  # late: newer state was put meanwhile
        first = ledger.is_live(batch) and batch.start == ledger.base(tp)
        if self.local.apply(tp.partition, batch.start, batch.end, first, batch.records):
            return
        offsets, state = self.app.tables.recovery.active_offsets, self.local.partitions.get(tp.partition)
        if state is not None and tp in offsets:  # of an older assignment: recovery must not take it for read
            offsets[tp] = (state.covered or 0) - 1

    async def _is_recovered(self) -> bool:
        """Whether every partition is covered up to where its changelog ended; raises StateIncomplete if not.

        False: it isn't known yet. A recovery that was interrupted by a rebalance may still come to its end,
        with the ends of the assignment before; recovery of the present one follows.
        """
        consumer, topic = self.app.consumer, self.changelog_topic_name
        ends = {number: consumer.recovery_end(TP(topic, number)) for number in self.local.partitions}
        if None in ends.values():
            return False
        empty = [
            TP(topic, number) for number, state in self.local.partitions.items() if state.covered is None
        ]
        starts = await consumer.earliest_offsets(*empty) if empty else {}
        for number, state in self.local.partitions.items():
            reached = starts[TP(topic, number)] if state.covered is None else state.covered
            if reached < ends[number]:
                raise StateIncomplete(f"{topic}-{number}: read to {reached} of {ends[number]}, start again")
        return True

    async def _claim(self) -> None:
        """Take a token for each partition and make it durable before anything else is written."""
        if not self.local.partitions:
            return
        consumer = self.app.consumer
        # after the reading: then a token as high as ours can only be of an earlier life of the group
        await consumer.fence()
        consumer.check_lease()
        states = dict(self.local.partitions)
        for state in states.values():
            state.claim(consumer.generation)
        markers: list[Item] = [(MARKER, b"", number, state.headers) for number, state in states.items()]
        self._cover(states, await self.app.producer.send_batch(self.changelog_topic_name, markers))


async def _call(callback: Callable[..., Awaitable[None] | None], *args: Any) -> None:
    result = callback(*args)
    if result is not None:
        await result


def create_table(
    app: Any, name: str, *, partitions: int, encode: Callable[[V], bytes], decode: Callable[[bytes], V]
) -> Table[V]:
    """`app.Table` with types: a table of `app` (made with `Table=Table, store="batchmem://"`)."""
    table: Table[V] = app.Table(name, partitions=partitions, encode=encode, decode=decode)
    return table
