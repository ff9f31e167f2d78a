"""What the relay has done since it started, and how far it is behind; shown as metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from telemetry import catalogue
from telemetry.readings import Reading


def _none() -> int:
    return 0


@dataclass(slots=True)
class RelayCounts:
    """Counts outlast the connections, which come and go."""

    published: int = 0
    """Rows that were handed to Kafka."""
    acknowledged: int = 0
    """Records that Kafka took, dead letters and their outcomes included."""
    too_large: int = 0
    """Of the rows: those that went to the dead letters."""
    failures: int = 0
    """Records that Kafka refused; they are sent again."""
    unacknowledged: Callable[[], int] = _none
    """Records that are on their way now."""
    backlog: Callable[[], int] = _none
    """Bytes of WAL that the server has sent and we have not confirmed."""

    def readings(self) -> Iterator[Reading]:
        """As metrics."""
        yield Reading(catalogue.PUBLISHED, self.published)
        yield Reading(catalogue.ACKNOWLEDGED, self.acknowledged)
        yield Reading(catalogue.DEAD_LETTERS, self.too_large, ("publish",))
        yield Reading(catalogue.DELIVERY_FAILURES, self.failures)
        yield Reading(catalogue.OUTSTANDING, self.unacknowledged())
        yield Reading(catalogue.RELAY_BACKLOG, self.backlog())
