"""What the alert pass looks at itself: conditions of the machine room that no event or job tells of.

Each watch names what is wrong now; what it named before and names no more is over. Processes that see
something else (a worker's clock, a sweep that rests) tell it by outcomes of the stage `health`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import structlog
from confluent_kafka import Consumer, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient

from db.publisher import EVENT_TYPES
from db.queries import load
from kafka_access import kafka_client
from schemas import alert_texts
from schemas.records import Alert
from schemas.topic_names import DEAD, PARKING
from settings import Language, Settings
from sinks.offsets import Database
from sinks.raised import trouble
from sinks.rows import TroubleRow

log = structlog.get_logger(__name__)

MUCH_WAL_MB: Final = 1024
"""WAL kept for a slot that is an alarm where the server sets no bound; else half the bound is."""
DUE_S: Final = 300.0
"""An event that has been due for so long is late: the sweep publishes it again about now."""
STILL_S: Final = 300.0
"""And when the oldest late one stays the same for so long, nothing advances (behaviour b127)."""
ASK_S: Final = 5.0


class Watch(Protocol):
    """One thing that is looked at."""

    name: str
    """Names of its conditions start with it."""

    def look(self, database: Database) -> list[TroubleRow]:
        """What is wrong now. Raises psycopg.Error or KafkaException when it can't be told."""


def watches(bootstrap: str, settings: Settings) -> list[Watch]:
    """All of them."""
    return [
        Slots(settings),
        Gaps(settings.language),
        Drains(settings.language),
        DeadLetters(bootstrap, settings),
    ]


def condition(watch: str, about: str, alert: Alert, organization_id: str | None = None) -> TroubleRow:
    """A condition that lasts until its watch sees it no more; `about` tells it from others of the watch."""
    now_ms = time.time_ns() // 1_000_000
    return trouble(alert, organization_id, "condition", f"{watch}@{about}", now_ms)


class Slots:
    """Is the log of changes still there, and does somebody read it?"""

    name = "slot"

    def __init__(self, settings: Settings) -> None:
        self._slot = settings.slot
        self._language = settings.language

    def look(self, database: Database) -> list[TroubleRow]:
        """Slots that are lost, and slots for which too much WAL is kept."""
        found = database.execute(load("alerts_slots"), {"slot": self._slot}).fetchall()
        seen = []
        for slot, wal_status, retained_mb, keep_mb in found:
            alert = slot_alert(str(slot), str(wal_status), int(retained_mb), int(keep_mb), self._language)
            if alert is not None:
                seen.append(condition(self.name, str(slot), alert))
        return seen


def slot_alert(
    slot: str, wal_status: str, retained_mb: int, keep_mb: int, language: Language
) -> Alert | None:
    """What is to be told of a slot; None: it is well.

    `keep_mb` is how much WAL the server keeps for a slot before it gives it up; negative = without bound.
    """
    if wal_status in ("absent", "lost"):
        return alert_texts.slot_lost(slot, language)
    limit_mb = keep_mb / 2 if keep_mb >= 0 else MUCH_WAL_MB
    if wal_status == "unreserved" or retained_mb > limit_mb:
        return alert_texts.slot_lagging(slot, retained_mb, language)
    return None


class Gaps:
    """Was a slot made anew? Told for one round: the relay fills the gap by itself."""

    name = "gap"

    def __init__(self, language: Language) -> None:
        self._language = language

    def look(self, database: Database) -> list[TroubleRow]:
        """Gaps since the last look; each is seen once."""
        found = database.execute(load("alerts_gaps")).fetchall()
        return [
            condition(
                self.name, f"{slot}#{made}", alert_texts.publisher_gap(str(slot), str(since), self._language)
            )
            for slot, made, since in found
        ]


@dataclass(frozen=True, slots=True)
class Late:
    """The events of one organization that are late."""

    organization_id: str
    oldest: str
    """Event id."""
    minutes: int
    """Since the oldest was due."""
    waiting: int


class Standstill:
    """Tells a drain that stands still from one that is behind and advances (pure).

    It stands still when the oldest late event of an organization stays the same. What was seen is kept in
    memory: after a restart the alarm comes `still_s` later.
    """

    def __init__(self, still_s: float = STILL_S) -> None:
        self._still_s = still_s
        self._since: dict[str, tuple[str, float]] = {}

    def see(self, late: Sequence[Late], now_s: float) -> list[Late]:
        """Those that stand still; `now_s` is of a clock that never steps."""
        self._since = {
            one.organization_id: self._kept(one.organization_id, one.oldest, now_s) for one in late
        }
        return [one for one in late if now_s - self._since[one.organization_id][1] >= self._still_s]

    def _kept(self, organization_id: str, oldest: str, now_s: float) -> tuple[str, float]:
        known = self._since.get(organization_id)
        return known if known is not None and known[0] == oldest else (oldest, now_s)


class Drains:
    """Does every organization's drain advance (behaviour b127)?"""

    name = "drain"

    def __init__(self, language: Language, due_s: float = DUE_S, still_s: float = STILL_S) -> None:
        self._language = language
        self._due_s = due_s
        self._standstill = Standstill(still_s)

    def look(self, database: Database) -> list[TroubleRow]:
        """Organizations of which nothing advances."""
        values = {"event_types": list(EVENT_TYPES), "due_s": self._due_s}
        found = database.execute(load("alerts_drains"), values).fetchall()
        late = [Late(str(one[0]), str(one[1]), int(one[2]), int(one[3])) for one in found]
        return [
            condition(
                self.name,
                one.organization_id,
                alert_texts.drain_stopped(one.oldest, one.minutes, one.waiting, self._language),
                one.organization_id,
            )
            for one in self._standstill.see(late, time.monotonic())
        ]


class DeadLetters:
    """Do dead letters pile up?"""

    name = "letters"

    def __init__(self, bootstrap: str, settings: Settings) -> None:
        self._bootstrap = bootstrap
        self._settings = settings

    def look(self, database: Database) -> list[TroubleRow]:
        """Topics with too many dead letters that were neither requeued nor dropped."""
        seen = []
        for name in (DEAD, PARKING):
            topic = self._settings.topic(name)
            kept = self._kept(topic)
            if kept is None:
                continue
            topic_id, ranges = kept
            values = {
                "topic_id": topic_id,
                "partitions": list(ranges),
                "begins": [begin for begin, _ in ranges.values()],
            }
            row = database.execute(load("alerts_letters"), values).fetchone()
            letters = sum(end - begin for begin, end in ranges.values()) - int(row[0] if row else 0)
            if letters >= self._settings.dead_letters_alarm:
                alert = alert_texts.dead_letters_large(topic, letters, self._settings.language)
                seen.append(condition(self.name, topic, alert))
        return seen

    def _kept(self, topic: str) -> tuple[str, Mapping[int, tuple[int, int]]] | None:
        """The topic's id, and each partition's first offset and end; None: there is no such topic."""
        admin = AdminClient({**kafka_client(self._bootstrap), "log_level": 0})
        asked = admin.describe_topics(TopicCollection([topic]), request_timeout=ASK_S)[topic]
        try:
            described = asked.result(ASK_S + 1)
        except KafkaException:
            return None
        consumer = Consumer({**kafka_client(self._bootstrap), "group.id": f"{topic}-counted", "log_level": 0})
        try:
            return str(described.topic_id), {
                partition.id: consumer.get_watermark_offsets(TopicPartition(topic, partition.id), ASK_S)
                for partition in described.partitions
            }
        finally:
            consumer.close()
