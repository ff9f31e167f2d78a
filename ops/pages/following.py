"""Follows the worker's changelogs and the event topics, read-only, in one thread while somebody looks.

No group is joined and nothing is committed. The changelogs are read from their beginnings, and what has
ended is forgotten at once (`held`); of the events only the newest are kept.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from typing import Final

import structlog
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from kafka_access import ANSWER_S, headers_of, kafka_client
from ops.moments import now_ms
from ops.pages.held import Arrivals, Came, Held
from schemas.topic_names import LIVE_GROUP
from settings import RajadaError, Settings
from streams import topics
from streams.events import Event, read_event, read_row
from streams.transport.token import MARKER, Reader
from web.pages.told import Windows

log = structlog.get_logger(__name__)

IDLE_S: Final = 600.0
"""Nobody has looked for so long: it ends, and begins anew with the next look."""
AGAIN_S: Final = 5.0
TAIL: Final = 200
"""Events of each partition that are read from before the first look."""
MOST_ORGANIZATIONS: Final = 2_000


class Following:
    """What is known from Kafka now. For any thread."""

    def __init__(self, bootstrap: str, settings: Settings) -> None:
        self._bootstrap = bootstrap
        self._changelogs = {
            settings.topic(topics.CONTACTS_CHANGELOG): "contact",
            settings.topic(topics.JOBS_CHANGELOG): "jobs",
        }
        self._sources = {settings.topic(name): name for name in (topics.SOURCE, topics.GROUP_LINKS)}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._looked = 0.0
        self._begin()

    def windows(self, whose: str | None) -> Windows:
        """Open windows and lanes, as far as they were read."""
        self._look()
        with self._lock:
            windows, all_windows = self._held.windows(whose)
            lanes, all_lanes = self._held.lanes(whose)
            complete = not self._unread and self._note is None and not self._held.left_out
            note = self._note
            if note is None and self._held.left_out:
                note = "There are more contacts with windows or jobs than are kept here; not all are shown."
        return Windows(
            at_ms=now_ms(),
            windows=windows,
            all_windows=all_windows,
            lanes=lanes,
            all_lanes=all_lanes,
            complete=complete,
            note=note,
        )

    def coming(self, whose: str | None) -> tuple[list[Came], list[int], str | None]:
        """The newest events, how many came in each of the last minutes, and why that is not known."""
        self._look()
        with self._lock:
            arrivals = self._arrivals.get(whose)
            if arrivals is None:
                return [], Arrivals().counts(now_ms()), self._note
            return list(arrivals.newest), arrivals.counts(now_ms()), self._note

    def close(self) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(5.0)

    def _look(self) -> None:
        with self._lock:
            self._looked = time.monotonic()
            if (self._thread is None or not self._thread.is_alive()) and not self._stop.is_set():
                self._begin()
                self._thread = threading.Thread(target=self._run, name="live-following", daemon=True)
                self._thread.start()

    def _begin(self) -> None:
        self._held = Held()
        self._arrivals: OrderedDict[str | None, Arrivals] = OrderedDict({None: Arrivals()})
        self._tokens: dict[tuple[str, int], Reader] = {}
        self._unread: set[tuple[str, int]] = set()
        self._note: str | None = None

    def _run(self) -> None:
        while not self._ends():
            try:
                self._follow()
            except (KafkaException, RajadaError) as error:
                with self._lock:
                    self._begin()
                    self._note = f"What the worker holds is not known: {_said(error)}"
                log.warning("following_failed", error=type(error).__name__)
                self._stop.wait(AGAIN_S)

    def _ends(self) -> bool:
        return self._stop.is_set() or time.monotonic() - self._looked > IDLE_S

    def _follow(self) -> None:
        consumer = Consumer(
            {
                **kafka_client(self._bootstrap),
                "group.id": LIVE_GROUP,  # asked for by the client, never joined
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                # what is fetched ahead is what this thread may hold beside its tables
                "queued.max.messages.kbytes": 4_096,
                "log_level": 2,
            }
        )
        try:
            begin = self._places(consumer)
            with self._lock:
                self._begin()
                self._unread = {(one.topic, one.partition) for one in begin if one.topic in self._changelogs}
            consumer.assign(begin)
            while not self._ends():
                messages = consumer.consume(500, 0.5)
                with self._lock:
                    for message in messages:
                        self._take(message)
        finally:
            consumer.close()

    def _places(self, consumer: Consumer) -> list[TopicPartition]:
        found: list[TopicPartition] = []
        for topic in (*self._changelogs, *self._sources):
            described = consumer.list_topics(topic, ANSWER_S).topics[topic]
            if described.error is not None:
                raise KafkaException(described.error)
            for partition in described.partitions:
                low, high = consumer.get_watermark_offsets(TopicPartition(topic, partition), ANSWER_S)
                begin = low if topic in self._changelogs else max(low, high - TAIL)
                found.append(TopicPartition(topic, partition, begin))
        return found

    def _take(self, message: Message) -> None:
        topic, partition = message.topic() or "", message.partition() or 0
        error = message.error()
        if error is not None:
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            self._unread.discard((topic, partition))
        elif topic in self._sources:
            self._came(self._sources[topic], message)
        else:
            self._changed(topic, partition, message)

    def _changed(self, topic: str, partition: int, message: Message) -> None:
        key, value = _bytes(message.key()), _bytes(message.value())
        tokens = self._tokens.setdefault((topic, partition), Reader())
        # what a replaced worker wrote late does not count
        if not tokens.accepts(headers_of(message)) or key is None or key == MARKER:
            return
        if self._changelogs[topic] == "contact":
            self._held.contact(key, value)
        else:
            self._held.jobs(key, value)

    def _came(self, kind: str, message: Message) -> None:
        at_ms, value = message.timestamp()[1], _bytes(message.value())
        came: Came | None = None
        if kind == topics.SOURCE:
            event = read_event(value, headers_of(message) or [], at_ms, at_ms, message.offset() or 0)
            if isinstance(event, Event):
                came = Came(event.event_id, event.organization_id, event.contact_id, kind, at_ms)
        else:
            found = read_row(value, kind)
            if isinstance(found, tuple):
                came = Came(found[0], found[1], None, kind, at_ms)
        if came is None:
            return  # it becomes a dead letter, which is told elsewhere
        self._arrivals[None].add(came)
        self._arrivals.setdefault(came.organization_id, Arrivals()).add(came)
        self._arrivals.move_to_end(came.organization_id)
        if len(self._arrivals) > MOST_ORGANIZATIONS:
            self._arrivals.move_to_end(None)
            self._arrivals.popitem(last=False)


def _said(error: Exception) -> str:
    if isinstance(error, KafkaException) and isinstance(error.args[0], KafkaError):
        return str(error.args[0].str())
    return str(error)


def _bytes(part: bytes | str | None) -> bytes | None:
    return part.encode() if isinstance(part, str) else part
