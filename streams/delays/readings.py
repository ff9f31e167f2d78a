"""The forwarder's counters as metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from streams.delays.lateness import Tally
from streams.delays.queues import Queues
from telemetry import catalogue
from telemetry.readings import Reading, Source, spread


def delays_source(tally: Tally, queues: Callable[[], Queues | None]) -> Source:
    """What was forwarded, what is at hand, how late it comes; `queues` are those of the session, if any."""

    def read() -> Iterator[Reading]:
        yield Reading(catalogue.DELAYS_FORWARDED, tally.forwarded)
        yield Reading(catalogue.DELAYS_DUE, tally.due)
        yield Reading(catalogue.DELAYS_UNDONE, tally.undone)
        yield Reading(catalogue.DEAD_LETTERS, tally.dead, ("delays",))
        yield from spread(catalogue.DELAY_LATENESS, tally.late)
        held = queues()
        yield Reading(catalogue.DELAYS_HELD, held.waiting if held is not None else 0)
        yield Reading(catalogue.PARTITIONS, len(held.places) if held is not None else 0)

    return read
