"""What somebody should look at: counted, logged with what to do, and told to whoever reports readiness."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Literal

import structlog

log = structlog.get_logger(__name__)

Kind = Literal["stalled", "uncommitted", "deleted", "mismatch", "silent", "recovery", "delivery"]

WHAT_TO_DO: Mapping[Kind, str] = {
    "stalled": "an agent has a batch and doesn't finish it: look for a call without a timeout, or restart",
    "uncommitted": "work is finished but its commit isn't confirmed: look at the group coordinator",
    "deleted": "records were deleted before they were read: raise retention.ms of the topic, republish them",
    "mismatch": "the fetcher stood elsewhere than the ledger and was put back: harmless unless it goes on",
    "silent": "no heartbeat was answered in time: is Kafka reachable? Until then nothing is written",
    "recovery": "a table's recovery stands still: is its changelog readable? `faust reset` drops local state",
    "delivery": "Kafka didn't take a record in time: the worker ends, its work is done again",
}
"""What each kind of alarm asks of its reader."""


class Alarms:
    """The alarms of one worker."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """How often each kind was raised."""
        self.active: dict[Kind, str] = {}
        """What is wrong now, in words."""
        self.on_change: Callable[[Mapping[Kind, str]], None] | None = None
        """Called with `active` whenever that changes: not empty means not ready."""

    @staticmethod
    def kinds() -> tuple[Kind, ...]:
        """All there are."""
        return tuple(WHAT_TO_DO)

    def note(self, kind: Kind, **facts: object) -> None:
        """Count and log something that is over already."""
        self.counts[kind] += 1
        log.error(f"alarm: {kind}", what_to_do=WHAT_TO_DO[kind], **facts)

    def raise_(self, kind: Kind, what: str) -> None:
        """Something is wrong from now on; `what` in words. Told once, until it is `clear`ed."""
        if kind in self.active:
            return
        self.counts[kind] += 1
        self.active[kind] = what
        log.error(f"alarm: {kind}", what=what, what_to_do=WHAT_TO_DO[kind])
        self._tell()

    def clear(self, kind: Kind) -> None:
        """It is right again."""
        if self.active.pop(kind, None) is not None:
            log.info(f"alarm is over: {kind}")
            self._tell()

    def set(self, kind: Kind, what: str | None) -> None:
        """Raise it, or (None) clear it."""
        if what is None:
            self.clear(kind)
        else:
            self.raise_(kind, what)

    def _tell(self) -> None:
        if self.on_change is not None:
            self.on_change(dict(self.active))
