"""Takes over what the group assigned, and gives it up again: for all tables of the application together."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from time import monotonic
from typing import Any, NamedTuple, Protocol

from .failure import end_process
from .stopwatch import Stopwatch

OnOwned = Callable[[set[int]], Awaitable[None] | None]
OnRevoked = Callable[[], Awaitable[None] | None]


class Membership(NamedTuple):
    """As whom, and in which generation of the group, this worker was assigned its partitions."""

    member: str
    generation: int
    static: bool
    """A static member keeps its name even when it misses a generation; others are thrown out and renamed."""

    def follows(self, earlier: Membership | None) -> bool:
        """Whether we stayed in the group: then all that we wrote before lies before any other's writes."""
        if earlier is None or self.member != earlier.member:
            return False
        return not self.static or self.generation == earlier.generation + 1


class Owned(Protocol):
    """What ownership needs of a table."""

    when_owned_callbacks: list[OnOwned]
    when_revoked_callbacks: list[OnRevoked]

    @property
    def owned(self) -> set[int]:
        """The partitions assigned to this worker."""

    async def is_recovered(self) -> bool:
        """Whether its state is whole."""

    def progress(self) -> tuple[int, int]:
        """Changelog records that are covered, and left to read."""

    def claim(self, generation: int) -> Awaitable[None]:
        """Make a token for each partition durable."""

    async def tell_faust(self) -> None:
        """Let Faust's own callbacks know that it is recovered."""


class Ownership:
    """One per worker; recoveries and revocations take turns."""

    def __init__(self, app: Any, tables: Callable[[], list[Any]]) -> None:
        self._app = app
        self._tables: Callable[[], list[Owned]] = tables
        self._turn = asyncio.Lock()
        self._revocations = 0
        self._recovering: int | None = None
        """The number of revocations when the present recovery began: behind a newer one it is stale."""
        self._told: list[Owned] = []
        self.pauses = Stopwatch()
        """From when partitions are given up until the next ones are ours."""
        self.recoveries = Stopwatch()
        """Reading the state back."""

    def begin(self) -> None:
        """Partitions were assigned, and their recovery begins."""
        self._recovering = self._revocations
        self.recoveries.begin(monotonic(), anew=True)

    def progress(self) -> tuple[int, int] | None:
        """Changelog records that are covered, and left to read; None when no recovery is under way."""
        if self._recovering is None or self._recovering != self._revocations:
            return None
        told = [table.progress() for table in self._tables()]
        return sum(read for read, _ in told), sum(left for _, left in told)

    async def recovered(self) -> None:
        """A recovery has come to its end: check it, claim the partitions of all tables, then tell.

        Faust calls it once for each table; the first call does the work. Nobody is told before everything
        is claimed: a callback may write in any table.
        """
        try:
            async with self._turn:
                # Faust says so, too, when a stop cuts the reading short
                if self._app.should_stop or self._recovering != self._revocations:
                    return
                tables = self._tables()
                for table in tables:
                    if not await table.is_recovered():
                        return
                self._recovering = None
                await self._claim([table for table in tables if table.owned])
                self._told = tables
                for table in tables:
                    await table.tell_faust()
                for table in tables:
                    for callback in table.when_owned_callbacks:
                        await _call(callback, table.owned)
                self.recoveries.end(monotonic())
                self.pauses.end(monotonic())
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # Faust would drop it
            end_process(error)

    async def _claim(self, tables: list[Owned]) -> None:
        if not tables:
            return
        consumer = self._app.consumer
        # after the reading: then a token as high as ours can only be of an earlier life of the group
        await consumer.fence()
        consumer.check_lease()
        await asyncio.gather(*(table.claim(consumer.generation) for table in tables))

    async def give_up(self) -> None:
        """The partitions are going: tell those who work beside the streams, and wait for them."""
        self._revocations += 1
        if self._told:  # at the first assignment there is nothing to give up
            self.pauses.begin(monotonic())
        async with self._turn:
            told, self._told = self._told, []
            for table in told:
                for callback in table.when_revoked_callbacks:
                    await _call(callback)


async def _call(callback: Callable[..., Awaitable[None] | None], *args: Any) -> None:
    result = callback(*args)
    if result is not None:
        await result
