"""Looks every second whether work, commits, heartbeats and recovery move, and where the logs begin."""

from __future__ import annotations

from time import monotonic
from typing import Any

import structlog

from .alarms import WHAT_TO_DO, Alarms
from .errors import StateIncomplete
from .failure import end_process
from .lease import Lease
from .ledger import Ledger
from .watchdog import Watchdog

log = structlog.get_logger(__name__)

LOGS_EVERY = 30.0
"""Seconds between two looks at where the logs begin."""
RECOVERY_TOLD_EVERY = 5.0
"""Seconds between two log lines about a recovery under way."""
RECOVERY_PATIENCE = 60.0
"""Seconds without progress after which a recovery ends the process."""


class Oversight:
    """The eyes of one consumer."""

    def __init__(self, consumer: Any) -> None:
        self._consumer = consumer
        self._conf = consumer.app.conf
        self._alarms: Alarms = consumer.alarms
        patience = self._conf.broker_commit_livelock_soft_timeout
        self._work: Watchdog[Any] = Watchdog(patience)
        self._commits: Watchdog[Any] = Watchdog(patience)
        self._recovery: Watchdog[str] = Watchdog(RECOVERY_PATIENCE)
        self._logs_at = self._told_at = self._began = monotonic()
        self._starts: dict[Any, int] = {}

    async def look(self) -> None:
        """One look; it never ends the process by mistake, whatever it meets."""
        now = monotonic()
        self._look_at_work(now)
        self._look_at_heartbeats(now)
        self._look_at_recovery(now)
        if now - self._logs_at >= LOGS_EVERY:
            self._logs_at = now
            await self._look_at_logs()

    def _look_at_work(self, now: float) -> None:
        ledger: Ledger[Any, Any] = self._consumer.ledger
        progress = ledger.progress()
        self._set(
            "stalled", self._work.stuck(now, {p: (at.base, at.unfinished) for p, at in progress.items()})
        )
        committed = {p: (at.committed, at.uncommitted) for p, at in progress.items()}
        self._set("uncommitted", self._commits.stuck(now, committed))

    def _set(self, kind: Any, stuck: dict[Any, float]) -> None:
        told = ", ".join(f"{p.topic}-{p.partition}" for p in sorted(stuck)[:5])
        self._alarms.set(kind, f"for {max(stuck.values()):.0f} s: {told}" if stuck else None)

    def _look_at_heartbeats(self, now: float) -> None:
        consumer, conf = self._consumer, self._conf
        lease: Lease = consumer._thread.lease
        joining = consumer.generation is None or consumer.app.rebalancing
        allowed = conf.broker_rebalance_timeout if joining else 0.0
        silence = min(lease.silence(), now - self._began)
        # who leaves the group on purpose has no more heartbeats
        late = silence > conf.broker_session_timeout + allowed and not consumer.app.should_stop
        self._alarms.set("silent", f"for {silence:.0f} s" if late else None)

    def _look_at_recovery(self, now: float) -> None:
        recovery = self._consumer.ownership.progress()
        if recovery is None:
            self._alarms.clear("recovery")
            self._recovery.stuck(now, {})
            return
        read, left = recovery
        if now - self._told_at >= RECOVERY_TOLD_EVERY:
            self._told_at = now
            log.info("recovering", read=read, left=left)
        if self._recovery.stuck(now, {"recovery": (read, left)}):
            self._alarms.raise_("recovery", f"{left} changelog records are left")
            waited = f"no progress in {RECOVERY_PATIENCE:.0f} s with {left} changelog records left"
            end_process(StateIncomplete(f"{waited}. {WHAT_TO_DO['recovery']}"))

    async def _look_at_logs(self) -> None:
        """Has retention passed a committed offset? What it deleted can't be read by whoever comes next."""
        committed = {p: at.committed for p, at in self._consumer.ledger.progress().items()}
        sources = [p for p in committed if not self._consumer._is_changelog_tp(p)]
        if not sources:
            return
        try:
            starts = await self._consumer.earliest_offsets(*sources)
        except Exception as error:  # the brokers are away: other alarms tell
            log.warning("the logs' starts are unknown", error=type(error).__name__)
            return
        for tp, first in starts.items():
            if first > committed[tp] and self._starts.get(tp) != first:
                self._starts[tp] = first
                self._alarms.note("deleted", tp=str(tp), start=committed[tp], end=first)
