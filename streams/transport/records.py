"""The records of batches one by one, for agents that are written like any other of Faust's.

app = faust.App(..., Stream=Stream)

@app.agent(topic)                      # topic has schema=Batched()
async def agent(stream):
    async for event in stream.events():            # event.key, event.value, event.headers
    async for values in stream.take(100, within=5):    # lists of up to 100 records' values
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any, NamedTuple

import faust
from mode.utils.times import want_seconds

from .batches import Batched, Record, owned_batches


class RecordEvent(NamedTuple):
    """A record as agents know events; keys and values are bytes."""

    app: Any
    message: Record
    batch: Any
    """The event of the batch that it came in."""

    @property
    def key(self) -> bytes | None:
        """The record's key."""
        return self.message.key

    @property
    def value(self) -> bytes | None:
        """The record's value; None is a tombstone."""
        return self.message.value

    @property
    def headers(self) -> Sequence[tuple[str, bytes]]:
        """The record's headers, in their order; names may repeat."""
        return self.message.headers


class Stream(faust.Stream):
    """Faust's stream, except that on batched topics `events` and `take` speak of records.

    A batch is acknowledged when the agent has asked for what comes after its last record: everything of it
    is handled then. An exception in the agent ends the process, and nothing unfinished was acknowledged.
    """

    @property
    def _batched(self) -> bool:
        return isinstance(getattr(self.channel, "schema", None), Batched)

    async def events(self) -> AsyncIterator[Any]:
        """The records, as events."""
        if not self._batched:
            async for event in super().events():
                yield event
            return
        async for batch in owned_batches(self):
            for record in batch.value:
                yield RecordEvent(batch.app, record, batch)
            await self.ack(batch)

    async def take(self, max_: int, within: Any) -> AsyncIterator[Sequence[Any]]:
        """Lists of up to `max_` values, the first of which waits for the others at most `within` seconds."""
        if not self._batched:
            async for values in super().take(max_, within):
                yield values
            return
        async for events in self._take(max_, want_seconds(within)):
            yield [event.value for event in events]

    async def take_events(self, max_: int, within: Any) -> AsyncIterator[Sequence[Any]]:
        """As `take`, with events."""
        if not self._batched:
            async for taken in super().take_events(max_, within):
                yield taken
            return
        async for events in self._take(max_, want_seconds(within)):
            yield events

    async def _take(self, max_: int, within: float) -> AsyncIterator[list[RecordEvent]]:
        most = self.app.conf.broker_rebalance_timeout / 2
        if within > most:  # a rebalance waits for what was taken up
            raise ValueError(
                f"take(within={within}) must be at most half of broker_rebalance_timeout ({most})"
            )
        batches = aiter(owned_batches(self))
        coming: deque[RecordEvent] = deque()
        pulling: asyncio.Task[Any] | None = None
        loop = asyncio.get_running_loop()
        try:
            while True:
                taken: list[RecordEvent] = []
                deadline: float | None = None
                while len(taken) < max_:
                    if not coming:
                        pulling = pulling or asyncio.ensure_future(anext(batches))
                        left = None if deadline is None else max(0.0, deadline - loop.time())
                        done, _ = await asyncio.wait([pulling], timeout=left)
                        if not done:
                            break
                        batch, pulling = pulling.result(), None
                        coming.extend(RecordEvent(batch.app, record, batch) for record in batch.value)
                    taken.append(coming.popleft())
                    deadline = deadline or loop.time() + within
                live = [event for event in taken if self._is_live(event.batch)]
                if live:
                    yield live
                for event in live:
                    if event.message is event.batch.value[-1]:
                        await self.ack(event.batch)
        except StopAsyncIteration:
            return
        finally:
            if pulling is not None:
                pulling.cancel()

    def _is_live(self, batch: Any) -> bool:
        """It wasn't overtaken by a rebalance while it waited for others."""
        live: bool = self.app.consumer.ledger.is_live(batch.message.batch)
        return live
