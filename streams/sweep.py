"""The sweep's rules: which events are published again, when, and what holds it back (pure).

CDC is not trusted alone (design, decision 12): events that stay pending are published again from the table.
That is only safe while worker and sink keep up: a row that they are about to finish looks the same as a lost
one (spec/dispatch.md, "Nothing is lost, even when CDC loses it").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from schemas.topic_names import APP_ID, GROUP_LINKS, SOURCE

CONSUMER: Final = "agent-engine"
"""The name under which an older system consumed: what it left `processing` is ours to reap (b131 to b133)."""
FIRST_BACKOFF_S: Final = 300
LONGEST_BACKOFF_S: Final = 6 * 3600
PAGE: Final = 500
"""Events that are noted, published and confirmed together."""
MOST_PAGES: Final = 40
"""Of one round of a worker: what is left waits for the next minute."""
KEPT_DAYS: Final = 30
"""How long `rajada.swept` remembers what has ended meanwhile: as long as the trace."""


@dataclass(frozen=True, slots=True)
class Swept:
    """One event type that is swept: its topic (name without prefix) and the group that reads it."""

    event_type: str
    topic: str
    group: str


SWEPT: Final = (Swept(SOURCE, SOURCE, APP_ID), Swept(GROUP_LINKS, GROUP_LINKS, APP_ID))
"""Every type is published to a topic of its own, and held back by that topic's readers alone."""


@dataclass(frozen=True, slots=True)
class Position:
    """Where a reader of one partition stands, and what the partition holds; offsets."""

    next: int | None
    """The next record to handle; None: it never said."""
    start: int
    """The first record that is left."""
    end: int
    """Last stable offset: one above the last record that can be read."""
    young: int | None
    """The first record that is younger than the limit; None: no record is."""

    @property
    def unread(self) -> int:
        """Records that still wait."""
        return max(0, self.end - max(self.next or 0, self.start))

    @property
    def overdue(self) -> int:
        """Records that wait and are older than the limit."""
        bound = self.end if self.young is None else min(self.young, self.end)
        return max(0, bound - max(self.next or 0, self.start))


Reader = Literal["worker", "sink"]


@dataclass(frozen=True, slots=True)
class Lag:
    """How one reader of a topic keeps up."""

    reader: Reader
    topic: str
    positions: Sequence[Position]

    @property
    def overdue(self) -> int:
        """Records, of all partitions, that wait for longer than the limit."""
        return sum(position.overdue for position in self.positions)


def brake(lags: Iterable[Lag], limit_s: float) -> str | None:
    """Why nothing may be published again now, in words for people; None: nothing speaks against it."""
    late = [
        f"the {lag.reader} is more than {limit_s:.0f} s behind ({lag.overdue:,} records of {lag.topic})"
        for lag in lags
        if lag.overdue
    ]
    return "; ".join(late) or None
