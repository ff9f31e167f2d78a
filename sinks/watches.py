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

from db.graves import graves
from db.heartbeats import heartbeats
from db.orders import pauses
from db.publisher import EVENT_TYPES
from db.queries import load
from schemas import alert_texts
from schemas.kinds import INBOUND_TURN
from schemas.records import Alert
from settings import Language, Settings
from sinks.offsets import Database
from sinks.raised import trouble
from sinks.rows import TroubleRow
from sinks.seen import Seen

log = structlog.get_logger(__name__)

LOST: Final = ("absent", "lost")
"""States of a slot that nothing can be read from any more."""
MUCH_WAL_MB: Final = 1024
"""WAL kept for a slot that is an alarm where the server sets no bound; else half the bound is."""
DUE_S: Final = 300.0
"""An event that has been due for so long is late: the sweep publishes it again about now."""
STILL_S: Final = 300.0
"""And when the oldest late one stays the same for so long, nothing advances (behaviour b127)."""
ASK_S: Final = 2.0
"""How long Kafka may take: a round's transaction must not stand idle for longer."""


class Watch(Protocol):
    """One thing that is looked at."""

    name: str
    """Names of its conditions start with it."""

    def look(self, database: Database) -> list[TroubleRow]:
        """What is wrong now. Raises psycopg.Error or GravesUnknown when it can't be told."""


def watches(bootstrap: str, settings: Settings, seen: Seen) -> list[Watch]:
    """All of them; some note what they saw."""
    found: list[Watch] = [Slots(settings, seen), Gaps(settings.language), Drains(settings.language)]
    found.append(Heartbeats(settings.language))
    if settings.jobs_run_by == "lanes" and not settings.jobs_paused:
        found.append(Lanes(settings.language))
    return [*found, DeadLetters(bootstrap, settings, seen)]


def condition(watch: str, about: str, alert: Alert, organization_id: str | None = None) -> TroubleRow:
    """A condition that lasts until its watch sees it no more; `about` tells it from others of the watch."""
    now_ms = time.time_ns() // 1_000_000
    return trouble(alert, organization_id, "condition", f"{watch}@{about}", now_ms)


class Slots:
    """Is the log of changes still there, and does somebody read it?"""

    name = "slot"

    def __init__(self, settings: Settings, seen: Seen | None = None) -> None:
        self._seen = seen
        self._slot = settings.slot
        self._language = settings.language

    def look(self, database: Database) -> list[TroubleRow]:
        """Slots that are lost, and slots for which too much WAL is kept."""
        found = database.execute(load("alerts_slots"), {"slot": self._slot}).fetchall()
        if self._seen is not None:
            self._seen.slots = {
                str(slot): (int(retained), str(wal_status) in LOST) for slot, wal_status, retained, _ in found
            }
        seen = []
        for slot, wal_status, retained, keep_mb in found:
            retained_mb = int(retained) >> 20
            alert = slot_alert(str(slot), str(wal_status), retained_mb, int(keep_mb), self._language)
            if alert is not None:
                seen.append(condition(self.name, str(slot), alert))
        return seen


def slot_alert(
    slot: str, wal_status: str, retained_mb: int, keep_mb: int, language: Language
) -> Alert | None:
    """What is to be told of a slot; None: it is well.

    `keep_mb` is how much WAL the server keeps for a slot before it gives it up; negative = without bound.
    """
    if wal_status in LOST:
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


class Heartbeats:
    """Does each of Debezium's connectors give signs of life? One that has failed gives none."""

    name = "publisher"

    def __init__(self, language: Language) -> None:
        self._language = language

    def look(self, database: Database) -> list[TroubleRow]:
        """Silent connectors; one without a slot is told of by `Slots`."""
        return [
            condition(
                self.name,
                one.slot,
                alert_texts.publisher_silent(one.slot, int(one.silent_s / 60), self._language),
            )
            for one in heartbeats(database)
            if one.has_slot and one.silent
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
        late = _late(database, "alerts_drains", values)
        return [
            condition(
                self.name,
                one.organization_id,
                alert_texts.drain_stopped(one.oldest, one.minutes, one.waiting, self._language),
                one.organization_id,
            )
            for one in self._standstill.see(late, time.monotonic())
        ]


class Lanes:
    """Does every organization's lane advance? Events may be decided while nobody runs their jobs."""

    name = "lanes"

    def __init__(self, language: Language, due_s: float = DUE_S, still_s: float = STILL_S) -> None:
        self._language = language
        self._due_s = due_s
        self._jobs, self._links = Standstill(still_s), Standstill(still_s)

    def look(self, database: Database) -> list[TroubleRow]:
        """Organizations whose jobs, or group links, are due and don't begin; of paused ones none."""
        values = {"kinds": [INBOUND_TURN], "due_s": self._due_s}
        paused = {one.organization_id for one in pauses(database)}
        now_s = time.monotonic()

        def late(statement: str) -> list[Late]:
            found = _late(database, statement, values) if None not in paused else []
            return [one for one in found if one.organization_id not in paused]

        still = self._jobs.see(late("alerts_lanes"), now_s)
        # a CRM without group links has no such table
        if database.execute("SELECT to_regclass('group_link_dispatch_queue') IS NOT NULL").fetchone() == (
            True,
        ):
            still += self._links.see(late("alerts_lanes_of_links"), now_s)
        return [
            condition(
                self.name,
                one.oldest,
                alert_texts.drain_stopped(one.oldest, one.minutes, one.waiting, self._language, about="job"),
                one.organization_id,
            )
            for one in still
        ]


def _late(database: Database, statement: str, values: Mapping[str, object]) -> list[Late]:
    found = database.execute(load(statement), values).fetchall()
    return [Late(str(one[0]), str(one[1]), int(one[2]), int(one[3])) for one in found]


class DeadLetters:
    """Do dead letters pile up?"""

    name = "letters"

    def __init__(self, bootstrap: str, settings: Settings, seen: Seen | None = None) -> None:
        self._open = seen
        self._bootstrap = bootstrap
        self._settings = settings

    def look(self, database: Database) -> list[TroubleRow]:
        """Topics with too many dead letters, or too large ones, that were neither requeued nor dropped."""
        seen, waiting = [], {}
        for name, grave in graves(self._bootstrap, self._settings, ASK_S).items():
            topic = self._settings.topic(name)
            values = {
                "topic_id": grave.topic_id,
                "partitions": list(grave.bounds),
                "begins": [begin for begin, _ in grave.bounds.values()],
            }
            row = database.execute(load("alerts_letters"), values).fetchone()
            letters = grave.letters - int(row[0] if row else 0)
            waiting[topic] = letters
            megabytes = letters * grave.letter_bytes >> 20
            if letters >= self._settings.dead_letters_alarm or megabytes >= self._settings.dead_alarm_mb:
                alert = alert_texts.dead_letters_large(
                    topic, letters, self._settings.language, megabytes=megabytes
                )
                seen.append(condition(self.name, topic, alert))
        if self._open is not None:
            self._open.letters = waiting
        return seen
