"""What a peer's source topic is fed: the workload's events, before them a warm-up, after them an end.

The warm-up is the same events under other ids, an hour earlier: a JVM compiles what it runs often, and only
then is compared. The measured events come in one transaction, so that a peer that waits for them sees all of
them at once, as a backlog, and not as fast as they can be produced.

The end is one record a partition that is no event but has a time: no peer tells its program where a log ends,
so without it the last wave's windows would stay open until the next message, or until a clock closes them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import cycle, islice
from uuid import UUID

from confluent_kafka import Producer

from bench.workload import WINDOW_MS, Workload, Written, records_of
from ops.event_record import Header
from settings import Settings
from streams import topics

HOUR_MS = 3_600_000
END = "bench.end"
_TRANSACTION_MS = 300_000

Fed = tuple[bytes, bytes, list[Header]]


def warming_of(workload: Workload, events: int) -> Workload:
    """A workload of that many events of nobody, all of them before the first of the given one."""
    whole = len(workload.events)
    rounds = -(-events // whole)
    made: list[Written] = []
    for number, one in enumerate(islice(cycle(workload.events), events)):
        lap = number // whole
        ghost = (lap + 1) << 64
        made.append(
            Written(
                _other(one.event_id, ghost),
                _other(one.message_id, ghost),
                replace(
                    one.patient,
                    contact_id=_other(one.patient.contact_id, ghost),
                    conversation_id=_other(one.patient.conversation_id, ghost),
                ),
                one.at_ms - HOUR_MS * (rounds - lap),
            )
        )
    return Workload(workload.clinic, tuple(made), workload.per_window)


def _other(name: str, ghost: int) -> str:
    return str(UUID(int=UUID(name).int ^ ghost))


def end_of(at_ms: int) -> Fed:
    """The record that ends a partition: later (by `at_ms`) than what came before it."""
    return (
        END.encode(),
        b'{"id": "end", "organization_id": "end", "event_type": "%s", "payload": "{}"}' % END.encode(),
        [("cdc_source_ts_ms", b"%d" % at_ms)],
    )


class Feed:
    """A producer of the source topic."""

    def __init__(self, settings: Settings, *, transactional: bool = False) -> None:
        self._topic = settings.topic(topics.SOURCE)
        self._partitions = settings.partitions
        config: dict[str, str | int | bool] = {
            "bootstrap.servers": settings.bootstrap(),
            "partitioner": "murmur2_random",
            "enable.idempotence": True,
            "linger.ms": 20,
            "queue.buffering.max.messages": 2_000_000,
            "queue.buffering.max.kbytes": 2_000_000,
        }
        if transactional:
            config |= {
                "transactional.id": settings.topic("bench-feed"),
                "transaction.timeout.ms": _TRANSACTION_MS,
            }
        self._producer = Producer(config)
        if transactional:
            self._producer.init_transactions(30)

    def send(self, records: Iterable[Fed]) -> None:
        """Send and wait until they are taken."""
        for number, (key, value, headers) in enumerate(records, 1):
            self._producer.produce(self._topic, value, key, headers=headers)
            if number % 1_000 == 0:
                self._producer.poll(0)
        self.flush()

    def send_now(self, record: Fed) -> None:
        """Send one, without waiting."""
        key, value, headers = record
        self._producer.produce(self._topic, value, key, headers=headers)
        self._producer.poll(0)

    def end(self, at_ms: int) -> None:
        """End every partition."""
        key, value, headers = end_of(at_ms)
        for number in range(self._partitions):
            self._producer.produce(self._topic, value, key, number, headers=headers)
        self.flush()

    def flush(self) -> None:
        """Wait until everything is taken."""
        if self._producer.flush(60):
            raise RuntimeError("Kafka did not take the records within a minute")

    def hold_back(self) -> None:
        """Readers of what is committed see nothing of what is sent from now on until `release`."""
        self._producer.begin_transaction()

    def release(self) -> None:
        """Commit it."""
        self._producer.commit_transaction(60)


def feed(settings: Settings, workload: Workload) -> None:
    """The whole workload and its end."""
    one = Feed(settings)
    one.send(records_of(workload))
    one.end(end_ms(workload))


def end_ms(workload: Workload) -> int:
    """When all its windows are over, also those that end two lengths after their last event."""
    return workload.events[-1].at_ms + 2 * WINDOW_MS + 2


def held_back(settings: Settings, workload: Workload) -> Feed:
    """The same, sent already; readers of what is committed see all of it at once, on `release`."""
    one = Feed(settings, transactional=True)
    one.hold_back()
    one.send(records_of(workload))
    one.end(end_ms(workload))
    return one
