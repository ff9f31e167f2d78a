"""The numbers of the transport as metrics: it knows nothing of ours, so whoever runs on it shows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import faust

from streams.transport import Consumer
from streams.transport.alarms import WHAT_TO_DO
from telemetry import catalogue
from telemetry.readings import Reading, Source, Summary
from telemetry.vitals import Trouble, trouble


def consumer_of(app: faust.App) -> Consumer | None:
    """The application's consumer once it runs; before that, asking for it would make one."""
    consumer = app._consumer
    return consumer if isinstance(consumer, Consumer) and app.started else None


def transport_source(consumer: Callable[[], Consumer | None], *, tables: bool = True) -> Source:
    """What the consumer, its ledger and its alarms count; nothing while there is none.

    `tables`: whether the application has any, and so knows when a rebalance and a recovery are over.
    """

    def read() -> Iterator[Reading]:
        found = consumer()
        if found is not None:
            yield from _consumer(found)
            yield from _alarms(found)
            yield from _partitions(found)
            if tables:
                yield from _ownership(found)

    return read


def _consumer(consumer: Consumer) -> Iterator[Reading]:
    told = consumer.counters()
    yield Reading(catalogue.MISMATCHES, consumer.refetches)
    yield Reading(catalogue.RETENTION_PASSED, consumer.alarms.counts["deleted"])
    yield Reading(catalogue.DELIVERY_FAILURES, consumer.alarms.counts["delivery"])
    yield Reading(catalogue.COMMITS_REFUSED, consumer.commits_refused)
    yield Reading(catalogue.REREADS, consumer.rereads)
    yield Reading(catalogue.IN_FLIGHT, told["transport_bytes_in_flight"])
    yield Reading(catalogue.OUTSTANDING, told["transport_outstanding"])
    yield Reading(catalogue.LATE_WRITES, told["transport_late_writes"])


def _alarms(consumer: Consumer) -> Iterator[Reading]:
    active = consumer.alarms.active.copy()
    for kind in consumer.alarms.kinds():
        yield Reading(catalogue.ALARMS, consumer.alarms.counts[kind], (kind,))
        yield Reading(catalogue.ALARM_ACTIVE, int(kind in active), (kind,))


def _partitions(consumer: Consumer) -> Iterator[Reading]:
    progress = consumer.progress()
    yield Reading(catalogue.PARTITIONS, len({tp.partition for tp in progress}))
    for tp, at in progress.items():
        labels = (str(tp.topic), str(tp.partition))
        end = consumer.log_end(tp)
        yield Reading(catalogue.COMMITTED, at.committed, labels)
        yield Reading(catalogue.UNCOMMITTED, at.uncommitted, labels)
        yield Reading(catalogue.UNFINISHED, at.unfinished, labels)
        if end is not None:
            yield Reading(catalogue.BEHIND, max(end - at.base, 0), labels)


def _ownership(consumer: Consumer) -> Iterator[Reading]:
    pauses, recoveries = consumer.ownership.pauses, consumer.ownership.recoveries
    progress = consumer.ownership.progress()
    yield Reading(catalogue.REBALANCE_PAUSE, Summary(pauses.number, pauses.total))
    yield Reading(catalogue.REBALANCE_LAST, pauses.last)
    yield Reading(catalogue.RECOVERY, Summary(recoveries.number, recoveries.total))
    yield Reading(catalogue.RECOVERY_LAST, recoveries.last)
    yield Reading(catalogue.RECOVERY_LEFT, progress[1] if progress is not None else 0)


def not_ready(consumer: Consumer | None, *, tables: bool = True) -> Iterator[Trouble]:
    """What the transport waits for: the group, its state, the brokers."""
    if consumer is None:
        yield trouble("group", "it has not joined its group yet")
        return
    active = consumer.alarms.active.copy()
    if "silent" in active:
        yield trouble("broker", f"no heartbeat was answered {active['silent']}: Kafka can't be reached")
    for kind, what in active.items():
        if kind not in ("silent", "recovery"):
            yield Trouble("work", f"{kind} {what}", WHAT_TO_DO[kind])
    if consumer.generation is None:
        yield trouble("group", "it has no partitions, or gives them up just now")
    elif tables and (progress := consumer.ownership.progress()) is not None:
        read, left = progress
        yield trouble("recovery", f"it reads its state back: {read} changelog records read, {left} are left")


def hangs(consumer: Consumer | None) -> Iterator[Trouble]:
    """What a restart would mend: work that doesn't end, a commit that fails though the group answers."""
    if consumer is None:
        return
    active = consumer.alarms.active.copy()
    if "stalled" in active:
        yield Trouble("work", f"work on a partition does not end {active['stalled']}", _STALLED)
    if "uncommitted" in active and "silent" not in active:
        yield Trouble("commits", f"commits are not confirmed {active['uncommitted']}", _UNCOMMITTED)


_STALLED = "Restart it: what is unfinished is done again. Its log says which call is awaited."
_UNCOMMITTED = "Restart it: the group answers, yet this worker's commits don't get through."
