"""Keeps a table's snapshots on local disk: when they are written, and which ones are believed.

A pass walks through a partition's keys in slices while the worker goes on, so it sees values of different
moments. That is harmless: everything written since the pass began is read again from the changelog, and
changelog records are whole values. Two things must not get into a file: a value that never became durable
(it waits for that), and one that a replaced owner wrote late (the group coordinator is asked).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from itertools import islice
from pathlib import Path
from typing import Generic, Protocol, TypeVar

import structlog

from .errors import FenceRefused
from .snapshot import Draft, Head, SnapshotUnusable, entries, read
from .state import Partition, State
from .token import Token
from .values import Values

log = structlog.get_logger(__name__)

V = TypeVar("V")

SLICE = 1000
"""Keys encoded at once: bounds how long a pass holds the event loop."""
PATIENCE = 30.0
"""Seconds that a pass waits for what was put meanwhile to become durable."""
MAX_AGE = 12 * 3600.0
"""Seconds after which a snapshot is ignored: half of the time for which Kafka keeps a tombstone by default
(`delete.retention.ms`). An older one could bring back a key whose tombstone is gone."""


class Source(Protocol[V]):
    """What is needed of a table."""

    local: State[V]

    @property
    def topic_name(self) -> str:
        """Name of the changelog."""

    def encode(self, value: V) -> bytes:
        """A value as it stands in the changelog."""

    async def settled(self, partition: Partition[V], timeout: float) -> bool:
        """Wait until all that was put so far is durable; False: it isn't in time."""

    async def confirm(self) -> None:
        """Return when the coordinator confirmed our generation. Raises FenceRefused."""

    async def topic_id(self) -> str:
        """Kafka's id of the changelog."""


class Snapshots(Generic[V]):
    """The snapshots of one table, a file per partition."""

    def __init__(self, table: Source[V], folder: Callable[[], Path], every: int, interval: float) -> None:
        self._table = table
        self._folder = folder
        self._every = every
        """Changelog records after which a partition is worth a new snapshot."""
        self._interval = interval
        """Seconds between two looks at what has changed; None of them is written more often."""
        self._written: dict[int, int] = {}
        self._turn = asyncio.Lock()

    def path(self, partition: int) -> Path:
        """Where the snapshot of a partition lies."""
        return self._folder() / f"{self._table.topic_name}-{partition}.snapshot"

    def drop(self) -> None:
        """Delete all of them."""
        for path in self._folder().glob(f"{self._table.topic_name}-*.snapshot"):
            path.unlink(missing_ok=True)

    # -- reading

    async def restore(self, partition: int, state: Partition[V], decode: Callable[[bytes], V]) -> None:
        """Fill the empty state of a partition from its snapshot, if there is one to be believed."""
        started = time.monotonic()
        try:
            found = await asyncio.to_thread(read, self.path(partition))
            if found is None:
                return
            head, pairs = found
            await self._check(head, partition)
            encoded: dict[bytes, bytes] = {}
            while part := dict(islice(pairs, SLICE)):
                encoded.update(part)
                await asyncio.sleep(0)
        except Exception as error:  # whatever is wrong with a file: the changelog has everything
            log.warning(
                "snapshot ignored, the whole changelog is read",
                path=str(self.path(partition)),
                reason=str(error) if isinstance(error, SnapshotUnusable) else type(error).__name__,
            )
            return
        state.values, state.covered = Values(decode, encoded), head.covered
        state.tokens.highest = bytes.fromhex(head.token) or None
        self._written[partition] = head.covered
        took = round(time.monotonic() - started, 2)
        log.info(
            "snapshot read", topic=head.topic, partition=partition, keys=len(encoded), covered=head.covered,
            token=Token.decode(state.tokens.highest) if state.tokens.highest else None, took_s=took,
        )  # fmt: skip

    async def _check(self, head: Head, partition: int) -> None:
        table = self._table
        if (head.topic, head.partition) != (table.topic_name, partition):
            raise SnapshotUnusable(f"it is of {head.topic}-{head.partition}")
        if head.topic_id != await table.topic_id():
            raise SnapshotUnusable("its changelog was made anew since")
        age = time.time() - head.written_at
        if not -60 < age < MAX_AGE:
            raise SnapshotUnusable(f"it is {age / 3600:.1f} hours old")

    # -- writing

    async def run(self) -> None:
        """Write snapshots, one partition at a time, of what has changed enough."""
        while True:
            await asyncio.sleep(self._interval)
            for partition in self._worth(self._every, share=0.5):
                await self.save(partition)

    async def finish(self, seconds: float) -> None:
        """Before a stop: write what has changed, the most changed first, for at most `seconds`."""
        deadline = time.monotonic() + seconds
        for partition in self._worth(1, share=0):
            left = deadline - time.monotonic()
            if left <= 0:
                break
            try:
                async with asyncio.timeout(left):
                    await self.save(partition)
            except TimeoutError:
                break

    def _worth(self, least: int, share: float) -> list[int]:
        """Partitions with `least` new records, and as many as a share of their keys; most changed first.

        None of ours whose recovery isn't over: it would slow that down, and be out of date at once.
        """
        local = self._table.local
        partitions: Mapping[int, Partition[V]] = {**local.followed, **local.partitions}
        behind = {}
        for number, state in partitions.items():
            if number in local.partitions and not state.headers:
                continue
            new = (state.covered or 0) - self._written.get(number, 0)
            if new >= max(least, share * len(state.values)):
                behind[number] = new
        return sorted(behind, key=lambda number: -behind[number])

    async def save(self, partition: int) -> bool:
        """Write the snapshot of a partition now; False: there is none to write, or it couldn't be."""
        async with self._turn:
            state = self._table.local.find(partition)
            if state is None or state.covered is None:
                return False
            token = state.tokens.highest or b""
            head = Head(
                self._table.topic_name, await self._table.topic_id(), partition, state.covered, token.hex(),
                time.time(),
            )  # fmt: skip
            try:
                return await self._write(state, head)
            except OSError as error:
                log.warning("no snapshot could be written", path=str(self.path(partition)), reason=str(error))
                return False

    async def _write(self, state: Partition[V], head: Head) -> bool:
        draft = await asyncio.to_thread(Draft, self.path(head.partition), head)
        values, claim, encode = state.values, state.headers, self._table.encode

        def is_same() -> bool:
            """It wasn't assigned anew, or emptied, meanwhile."""
            return state.values is values and state.headers is claim

        try:
            keys = iter(list(values))
            while part := list(islice(keys, SLICE)):
                found = ((key, values.encoded(key, encode)) for key in part)
                data = entries((key, value) for key, value in found if value is not None)
                await asyncio.to_thread(draft.write, data)
                if not is_same():
                    return False
            if claim:
                if not await self._table.settled(state, PATIENCE):
                    return False
                try:
                    await self._table.confirm()
                except FenceRefused:
                    return False
            if not is_same():
                return False
            await asyncio.to_thread(draft.publish)
        finally:
            draft.discard()
        self._written[head.partition] = head.covered
        return True
