"""Table of typed values: one changelog record per touched key and flush, recovered in bulk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

from faust.stores import memory

from .batches import Batched
from .changelog import ChangelogTable
from .ownership import OnOwned, OnRevoked
from .producer import Item
from .state import State

V = TypeVar("V")

COMPACTION_LAG_MS = 30 * 60 * 1000
"""A changelog record stays readable at least so long, even when a newer one of its key exists."""


class _View(Mapping[bytes, Any]):
    """The state as the read-only mapping that Faust's tables have underneath."""

    def __init__(self, state: State[Any]) -> None:
        self._state = state

    def __getitem__(self, key: bytes) -> Any:
        for partition in self._state.partitions.values():
            value = partition.values.get(key)
            if value is not None:
                return value
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


class Table(ChangelogTable[V]):
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
        snapshots: bool = True,
        **kwargs: Any,
    ) -> None:
        serializers = {"key_serializer": "raw", "value_serializer": "raw"}
        kwargs.setdefault("schema", Batched(key_type=bytes, value_type=bytes, **serializers))
        kwargs["extra_topic_configs"] = {
            "min.compaction.lag.ms": COMPACTION_LAG_MS,
            **(kwargs.get("extra_topic_configs") or {}),
        }
        kwargs["recovery_buffer_size"] = 2  # in batches; 1 has a meaning of its own in Faust's recovery
        types = {"key_type": bytes, "value_type": bytes}
        super().__init__(app, encode=encode, decode=decode, snapshots=snapshots, **types, **kwargs)

    def info(self) -> Mapping[str, Any]:
        """The constructor's arguments (Faust clones tables by them)."""
        own = {"encode": self.encode, "decode": self._decode, "snapshots": self.snapshots is not None}
        return {**super().info(), **own}

    # -- use

    def get(self, key: bytes, partition: int | None = None) -> V | None:
        """The value of `key`, or None; quicker when `partition`, that of the key's records, is given.

        Values are decoded when they are asked for first; from then on it is the same object for all who ask.
        """
        return self.local.get(key, partition)

    def peek(self, key: bytes, partition: int) -> V | None:
        """As `get`, but only to look at: what nobody has used since it was read isn't kept decoded."""
        return self.local.peek(key, partition)

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
        encode = self.encode

        def items() -> Iterator[Item]:
            for partition, (state, keys) in taken.items():
                values, headers = state.values, state.headers
                for key in keys:
                    yield key, values.encoded(key, encode), partition, headers

        def durable(sent: asyncio.Future[dict[int, int]]) -> None:
            self._unsettled.discard(sent)
            if not sent.cancelled() and sent.exception() is None:
                self._cover({partition: state for partition, (state, _) in taken.items()}, sent.result())
                if not result.done():
                    result.set_result(None)

        sent = self.app.producer.send_batch(self.topic_name, items())
        self._unsettled.add(sent)
        sent.add_done_callback(durable)
        return result

    def partition_items(self, partition: int) -> Iterator[tuple[bytes, V]]:
        """Keys and values of one owned partition (nothing when it isn't); don't get or put while iterating.

        The values are as `peek` gives them: to change one, `get` it.
        """
        return self.local.items(partition)

    def partition_keys(self, partition: int) -> Iterator[bytes]:
        """Keys of one owned partition; don't get or put while iterating."""
        return self.local.keys(partition)

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

        All tables of the application are recovered and may be written by then. Usable as a decorator. An
        exception in it ends the process.
        """
        self.when_owned_callbacks.append(callback)
        return callback

    def when_revoked(self, callback: OnRevoked) -> OnRevoked:
        """Await `callback` before the partitions are given up, on a rebalance and on a graceful stop.

        The streams are idle by then; writing, flushing, sending and fencing still work, and nothing must be
        left for later. Called only after `when_owned` was. An exception in it ends the process.
        """
        self.when_revoked_callbacks.append(callback)
        return callback


def create_table(
    app: Any,
    name: str,
    *,
    partitions: int,
    encode: Callable[[V], bytes],
    decode: Callable[[bytes], V],
    snapshots: bool = True,
) -> Table[V]:
    """`app.Table` with types: a table of `app` (made with `Table=Table, store="batchmem://"`).

    `snapshots`: keep its state on local disk, too (in the app's data folder), so that a restart reads only
    what was written since.
    """
    table: Table[V] = app.Table(
        name, partitions=partitions, encode=encode, decode=decode, snapshots=snapshots
    )
    return table
