"""The part of the consumer that moves the fetcher: to committed offsets, back to where it should be."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import structlog
from aiokafka.errors import IllegalStateError
from faust.transport.drivers import aiokafka as driver

from .alarms import Alarms
from .batches import Record
from .failure import vital
from .fetching import ConsumerThread
from .ledger import Ledger

log = structlog.get_logger(__name__)


class Seeking(driver.Consumer):
    """Moves the fetcher, and tells the ledger before and after."""

    alarms: Alarms

    refetches: int = 0
    """Times the fetcher stood elsewhere than it should."""
    rereads: int = 0
    """Times that a table missed records of its changelog and had them read again."""

    on_log_remade: Callable[[str], Awaitable[None]] | None = None
    """Awaited with a topic's name before its log, cut or made anew, is read from its start."""

    _thread: ConsumerThread

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.ledger: Ledger[Any, Record] = Ledger()
        self.alarms = Alarms()
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

    # -- where the fetcher went by itself

    async def _refetch(self, tp: Any, epoch: int, start: int, expected: int) -> None:
        """The fetcher stands elsewhere than it should: put it back, or to where the log begins."""
        self.refetches += 1
        self.alarms.counts["mismatch"] += 1
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
            self.alarms.note("deleted", tp=str(tp), start=expected, end=first)
            await super().seek_wait({tp: first})
