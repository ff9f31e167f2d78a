"""One run: stuck instances are moved on, then the notifications are rebuilt (spec/reconciler.md).

A run may end anywhere: killed, cut off from the database, replaced by another. What it has written stands by
itself, what it has leased comes free, and the next run goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from dataclasses import dataclass, field
from time import monotonic, time_ns
from typing import Final, Literal

import psycopg
import structlog

from db.pool import is_away
from streams.reconcile.instances import Instance, Leave, Move, asked_at_once, decide, is_worth_asking
from streams.reconcile.ledger import Firing, Ledger
from streams.reconcile.probe import Probe, Provider
from streams.reconcile.report import Report
from streams.reconcile.store import Store
from telemetry.tracing import traces

log = structlog.get_logger(__name__)

BEATS_A_LEASE: Final = 4
PAGE: Final = 50_000
"""Notifications opened, and resolved, in one transaction: so long may a flood keep the others waiting."""
RELEASE_S: Final = 3.0

End = Literal["done", "failed", "stopped", "lost"]


@dataclass(frozen=True, slots=True)
class Options:
    """How runs are made.

    Args:
        owner: in whose name leases are held; unique for each start of a process.
        batch: instances leased at a time.
        lease_s: how long a lease lasts, on instances and on the run itself.
        provider: who is asked before an instance is condemned; None: nobody.
        when_away: what happens to an instance if it doesn't answer.
    """

    owner: str
    batch: int = 1_000
    lease_s: float = 60.0
    provider: Provider | None = None
    when_away: Literal["age", "leave"] = "age"

    @property
    def at_once(self) -> int:
        """Instances leased at a time, few enough to be judged in time."""
        if self.provider is None:
            return self.batch
        return asked_at_once(
            self.batch,
            concurrency=self.provider.concurrency,
            timeout_s=self.provider.timeout_s,
            lease_s=self.lease_s,
        )


@dataclass(slots=True)
class Made:
    """How a run ended, and what it did."""

    end: End = "done"
    report: Report = field(default_factory=Report)
    error: str | None = None
    took_s: float = 0.0


class Runner:
    """Makes runs, one after the other or side by side. `ledger` and `store` are of opened pools."""

    def __init__(self, ledger: Ledger, store: Store, options: Options) -> None:
        self._ledger = ledger
        self._repair = Repair(store, options)
        self._store = store
        self._options = options

    async def make(self, firing: Firing) -> Made:
        """Make the run of a firing; never raises but CancelledError, after it has given everything back."""
        made, began, began_ms = Made(), monotonic(), time_ns() // 1_000_000
        work = asyncio.create_task(self._work(firing, made))
        beats = asyncio.create_task(self._beats(firing, made.report))
        try:
            await asyncio.wait({work, beats}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                made.end = "lost"
        except asyncio.CancelledError:
            made.end = "stopped"
            raise
        finally:
            await _ended(beats)
            await _ended(work)
            made.took_s = monotonic() - began
            await self._end(firing, made)
            counts, now_ms = made.report.counts(), time_ns() // 1_000_000
            traces().reconciled(str(firing.id), firing.kind, made.end, counts, began_ms, now_ms)
        return made

    async def _work(self, firing: Firing, made: Made) -> None:
        try:
            try:
                await self._repair.make(firing, made.report)
            except psycopg.Error as error:
                if is_away(error):
                    raise
                self._failed(made, error)  # the hub is told all the same
            await rebuild(self._store, made.report)
            made.report.unknown = await self._store.unknown()
            await self._store.forget()
        except Exception as error:  # whatever it was, the next run tries
            self._failed(made, error)

    def _failed(self, made: Made, error: Exception) -> None:
        made.end = "failed"
        sqlstate = error.sqlstate if isinstance(error, psycopg.Error) else None
        made.error = type(error).__name__ + (f" ({sqlstate})" if sqlstate else "")
        if isinstance(error, psycopg.Error):
            log.warning("reconciliation_failed", error=type(error).__name__, sqlstate=sqlstate)
        else:
            log.error("reconciliation_defect", exc_info=error)

    async def _beats(self, firing: Firing, report: Report) -> None:
        """Prolong the run's lease for ever; returns when it is lost."""
        kept = monotonic()
        while monotonic() - kept < self._options.lease_s:
            await asyncio.sleep(self._options.lease_s / BEATS_A_LEASE)
            asked = monotonic()
            try:
                if not await self._ledger.beat(firing, report.counts()):
                    break
            except (psycopg.Error, OSError):
                continue  # the work meets the same trouble, or the lease ends
            kept = asked
        log.error("reconciliation_lost", firing=str(firing.id))

    async def _end(self, firing: Firing, made: Made) -> None:
        report = made.report
        try:
            async with asyncio.timeout(RELEASE_S):
                ours = await self._ledger.end(firing, made.end, report.counts(), report.facts(), made.error)
        except (psycopg.Error, OSError, TimeoutError) as error:
            log.warning("reconciliation_unended", error=type(error).__name__, firing=str(firing.id))
            return
        if not ours:
            made.end = "lost"
        log.info(
            "reconciled", end=made.end, kind=firing.kind, took_s=round(made.took_s, 3), **report.counts()
        )
        if report.unknown:
            log.warning("instances_in_unknown_states", states=report.unknown)


class Repair:
    """Step 1: batch after batch until none is left."""

    def __init__(self, store: Store, options: Options) -> None:
        self._store = store
        self._options = options

    async def make(self, firing: Firing, report: Report) -> None:
        """Move on whatever is stuck. Raises psycopg.Error when the database can't be asked."""
        provider = self._options.provider
        asking: Callable[[], AbstractAsyncContextManager[Probe | None]] = (
            nullcontext if provider is None else lambda: Probe(provider)
        )
        left: set[str] = set()
        async with asking() as probe:
            while instances := await self._reserve():
                if all(instance.id in left for instance in instances):
                    return  # their leases ended while we went on; a later run sees to them
                report.reserved += len(instances)
                try:
                    moves = await self._judge(instances, probe, report, left)
                    left.update(await self._write(moves, firing, report))
                except asyncio.CancelledError:
                    await self._give_back(instances)
                    raise

    async def _reserve(self) -> list[Instance]:
        options = self._options
        return await self._store.reserve(options.at_once, options.owner, options.lease_s)

    async def _judge(
        self, instances: Sequence[Instance], probe: Probe | None, report: Report, left: set[str]
    ) -> list[tuple[Instance, Move]]:
        """What is to become of each; those that are left alone are counted."""
        doubtful = [instance for instance in instances if is_worth_asking(instance)]
        verdicts = await probe.ask(doubtful) if probe is not None else {}
        moves = []
        for instance in instances:
            decided = decide(instance, verdicts.get(instance.id), when_away=self._options.when_away)
            if isinstance(decided, Leave):
                left.add(instance.id)
                report.skipped[decided.reason] += 1
            else:
                moves.append((instance, decided))
        return moves

    async def _write(
        self, moves: Sequence[tuple[Instance, Move]], firing: Firing, report: Report
    ) -> list[str]:
        """Write the moves; ids of those that Postgres refuses, found by halving the batch."""
        if not moves:
            return []
        try:
            moved = await self._store.move(moves, firing.id)
        except psycopg.Error as error:
            if is_away(error):
                raise
            if len(moves) > 1:
                half = len(moves) // 2
                refused = await self._write(moves[:half], firing, report)
                return refused + await self._write(moves[half:], firing, report)
            (instance, _) = moves[0]
            report.skipped["refused_by_the_database"] += 1
            log.error("move_refused", instance=instance.id, sqlstate=error.sqlstate)
            return [instance.id]
        for instance, move in moves:
            if instance.id in moved:
                report.moved[move.reason] += 1
            else:
                report.skipped["changed_meanwhile"] += 1
        return []

    async def _give_back(self, instances: Sequence[Instance]) -> None:
        with suppress(psycopg.Error, OSError, TimeoutError):
            async with asyncio.timeout(RELEASE_S):
                await self._store.release(instances)


async def rebuild(store: Store, report: Report, page: int = PAGE) -> None:
    """Step 2: the notifications become what is true, page by page. Raises psycopg.Error."""
    while True:
        done = await store.rebuild(page)
        report.opened += done.opened
        report.resolved += done.resolved
        if not done.more:
            return


async def _ended(task: asyncio.Task[None]) -> None:
    """Cancel a task, unless it is done, and wait until it has given back what it held."""
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
