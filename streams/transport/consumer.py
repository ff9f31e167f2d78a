"""The Faust consumer: on top of `Delivery`, it guards what this worker owns and gives it up in order."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Mapping
from typing import Any

import structlog
from aiokafka.errors import IllegalStateError
from faust.types import TP

from .batches import Record
from .delivery import Delivery
from .errors import FenceRefused, LeaseLost, TransportError
from .failure import end_by, end_process, vital, waiting_tasks
from .fetching import ChangelogMissing
from .ledger import Batch, Progress
from .oversight import Oversight
from .ownership import Membership, Ownership
from .table import Table

log = structlog.get_logger(__name__)


DRAIN = 0.8
"""Share of the rebalance timeout in which work has to end before its partitions are given up."""


class DrainTimeout(TransportError):
    """Work didn't end in time for a rebalance: make batches smaller or raise broker_rebalance_timeout."""


class Consumer(Delivery):
    """The consumer of one worker; all methods run in the main loop."""

    stop_deadline: float = 15.0
    """Seconds after which a graceful stop ends with status 70; what wasn't finished is done again."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._giving_up = False
        self._restored = 0
        self._ending: threading.Timer | None = None
        self._membership: Membership | None = None
        self.stayed_member = False
        """Whether nobody else can have owned our partitions since the assignment before."""
        self.generation: int | None = None
        """The group's generation in which partitions are ours; None while none are."""
        super().__init__(*args, **kwargs)
        self.ownership = Ownership(self.app, self._tables)

    async def on_start(self) -> None:
        """Begin to look whether everything moves."""
        await super().on_start()
        self.add_future(vital(self._oversee)())

    def stop_flow(self) -> None:
        """Deliver nothing more, for a rebalance or for good."""
        self._look_at_stop()
        super().stop_flow()

    def _look_at_stop(self) -> None:
        """A graceful stop has a deadline, whatever work doesn't end, and wherever Kafka is."""
        if self.app.should_stop and self._ending is None:
            self._ending = end_by(self.stop_deadline, self.loop)

    async def on_task_error(self, exc: BaseException) -> None:
        """An agent without a handler of its own has failed: the process ends, its record isn't acknowledged.

        Faust would commit, acknowledge the record and restart the agent.
        """
        end_process(exc)

    async def crash(self, reason: BaseException) -> None:
        """A failed service ends the process: Faust's way leaves the group before the work ends."""
        end_process(reason)

    async def verify_all_partitions_active(self) -> None:
        """Nothing: Faust's check fails while a position is looked up. See `oversight`."""

    async def _oversee(self) -> None:
        oversight = Oversight(self)
        while not self.should_stop:
            await self.sleep(1.0)
            self._look_at_stop()
            await oversight.look()

    async def highwaters(self, *partitions: Any) -> Mapping[Any, int]:
        """The ends of logs. Recovery begins by asking for them: the moment to take what is on local disk."""
        if self._restored != self.assignments:
            self._restored = self.assignments
            for table in self._tables():
                await table.restore()
        return await super().highwaters(*partitions)

    # -- ownership

    def lease_held(self) -> bool:
        """Nobody else can own our partitions: a heartbeat was answered recently enough."""
        return self.generation is not None and self._thread.lease.held()

    def check_lease(self) -> None:
        """Raise LeaseLost unless the lease is held."""
        if not self.lease_held():
            raise LeaseLost("no heartbeat was answered lately, another worker may own the partitions")

    async def owned(self, message: Any) -> bool:
        """Wait until a batch is certainly ours; False: it is not, leave it alone."""
        batch: Batch[Any, Record] = message.batch
        # two of the three conditions are set by another thread: no event could tell
        while self.ledger.is_live(batch) and self.flow_active and not self.lease_held():  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        if self.ledger.is_live(batch) and self.lease_held():
            return True
        self._unacked_messages.discard(message)
        return False

    async def fence(self) -> None:
        """Return when the group coordinator confirmed, after this call, that the partitions are still ours.

        What was durable before the call will be read by whoever owns the partitions later. A refusal ends
        the process: the work must be dropped.
        """
        try:
            await self.confirm()
        except FenceRefused as error:
            end_process(error)

    async def confirm(self) -> None:
        """As `fence`, but for work that may as well be dropped. Raises FenceRefused."""
        generation = self.generation
        if generation is None:
            raise FenceRefused("no partitions are ours now; fence before `when_revoked` returns")
        await self._thread.confirm(generation)

    def applied(self, topic: str, partition: int) -> int | None:
        """Everything below this offset is finished by the agent; None when the partition isn't ours (yet)."""
        return self.ledger.base(TP(topic, partition))

    def stable_end(self, topic: str, partition: int) -> int | None:
        """Last stable offset in the newest fetch answer since this assignment; None before any.

        Answers without records count. When it equals `applied`, there was nothing left to do at most
        `fetching.FETCH_MAX_WAIT_MS` ago.
        """
        return self._thread.stable_end(TP(topic, partition))

    def counters(self) -> dict[str, int]:
        """What is worth a look, as numbers."""
        tables = self._tables()
        return {
            "transport_refetches": self.refetches,
            "transport_rereads": self.rereads,
            "transport_stale_fetches": self.stale_fetches,
            "transport_holes": self.holes,
            "transport_commits_refused": self.commits_refused,
            "transport_bytes_in_flight": self._bytes_in_flight(),
            "transport_outstanding": self.app.producer.outstanding,
            "transport_uncommitted": sum(at.uncommitted for at in self.ledger.progress().values()),
            "transport_late_writes": sum(table.local.late_writes for table in tables),
            **{f"transport_alarm_{kind}": count for kind, count in sorted(self.alarms.counts.items())},
        }

    def progress(self) -> Mapping[Any, Progress]:
        """How far each partition is that isn't a changelog's.

        From another thread: RuntimeError when the main loop just changes what is assigned; ask again.
        """
        return {tp: at for tp, at in self.ledger.progress().items() if not self._is_changelog_tp(tp)}

    def log_end(self, tp: Any) -> int | None:
        """The end of a log as the newest fetch answer told it; None before any. From any thread."""
        return self._thread.stable_end(tp)

    # -- rebalance

    async def perform_seek(self) -> None:
        """Seek to the committed offsets, unless the partitions are being given up (recovery starts over)."""
        if self._giving_up:
            raise IllegalStateError("the partitions are being given up")
        await super().perform_seek()

    async def on_partitions_revoked(self, revoked: set[Any]) -> None:
        """Finish what is at work, commit it, and give the partitions up."""
        timeout = self.app.conf.broker_rebalance_timeout * DRAIN
        self._giving_up = True
        self.ledger.suspend()
        try:
            async with asyncio.timeout(timeout):
                await super().on_partitions_revoked(revoked)  # drains the streams and commits
                await self.ownership.give_up()
                await self.app.producer.flush()
        except TimeoutError:
            log.error("work at a rebalance doesn't end", waiting=waiting_tasks())
            end_process(DrainTimeout(f"work at a rebalance took more than {timeout:.0f} s"))
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # aiokafka would log it and join all the same
            end_process(error)
        self.generation = None
        self.ledger.revoke(revoked)

    async def on_partitions_assigned(self, assigned: set[Any], generation_id: int = 0) -> None:
        """Begin a new assignment: every partition is closed until its seek."""
        self._check_changelogs(assigned)
        self.ledger.assign(assigned)
        self.assignments += 1
        self._giving_up = False
        self.generation = generation_id
        membership = self._thread.membership(generation_id)
        self.stayed_member = membership.follows(self._membership)
        self._membership = membership
        await super().on_partitions_assigned(assigned, generation_id)

    def _tables(self) -> list[Table[Any]]:
        return [table for table in self.app.tables.values() if isinstance(table, Table)]

    def _check_changelogs(self, assigned: Collection[Any]) -> None:
        """Without its changelog partition a table starts empty and overwrites what the changelog holds.

        Tables belong to the source topics that have as many partitions as they.
        """
        sources = [tp for tp in assigned if not self._is_changelog_tp(tp) and self._is_batched(tp.topic)]
        for table in self._tables():
            topic = table.topic_name
            without = {
                tp.partition
                for tp in sources
                if self._thread.topic_partitions(tp.topic) in (None, table.partitions)
            } - {tp.partition for tp in assigned if tp.topic == topic}
            if without:
                end_process(ChangelogMissing(f"partitions {sorted(without)} are assigned without {topic}"))
