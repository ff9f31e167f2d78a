"""Keeps Debezium's connectors as they must be: publication, slot, connector, and what a lost slot has missed.

What makes it safe to be run again at any time, and the cure for a slot that is gone:
- the position that Kafka has (Kafka Connect's offsets) is never behind what the slot has let go. Where it
  is, the slot was made anew: everything in between is gone from the log of changes;
- then, as with the relay (`db.relay`), it is noted before the new slot is made that the table is to be read,
  and the note goes only when every pending row is in Kafka;
- the table is read before the connector starts, and the connector starts where the slot does: so the records
  of a contact keep their order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Final, cast

import psycopg
import structlog
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient, NewTopic

from db.backfill import backfill
from db.column_values import SESSION
from db.heartbeats import Heartbeat, heartbeats
from db.outlet import Outlet
from db.pool import conninfo_for
from db.queries import load
from db.relay import BACKFILL_MARGIN
from db.replication import TABLE, Connection, drop, ensure_publication, ensure_slot, slot_status
from kafka_access import kafka_client
from ops.asking import asking
from ops.cdc.condition import Seen, is_gap
from ops.cdc.files import Connector, connectors
from ops.cdc.rest import Condition, Connect
from ops.errors import OpsError
from settings import Settings
from streams.unpublished import outcome_of_too_large

log = structlog.get_logger(__name__)

RUNNING_S: Final = 60.0
"""How long a connector may take until it runs."""
_STOPPED_S: Final = 30.0
_HEARTBEATS_KEPT_MS: Final = 24 * 3600 * 1000
_TOPIC_S: Final = 30.0

Say = Callable[[str], None]


class Unfilterable(OpsError):
    """A publication can't pick our events out of the log; the message says which column is why."""


@dataclass(frozen=True, slots=True)
class Registered:
    """What came of registering a connector."""

    name: str
    event_type: str
    new_slot: bool = False
    """A slot was made: at first, or since the old one was of no more use."""
    backfilled: int = 0
    """Rows that were read from the table and published."""
    changed: bool = False
    """The connector was made, or its configuration changed."""
    state: str = "ABSENT"


class Connectors:
    """The connectors of one installation; a context that holds its connections."""

    def __init__(self, wanted: Sequence[Connector], connect: Connect, database_url: str) -> None:
        self._wanted = wanted
        self._connect = connect
        self._url = database_url

    def status(self) -> list[Seen]:
        """How each fares. Raises ConnectAway, OpsError."""
        with asking(self._url), self._database() as database:
            beats = {beat.slot: beat for beat in heartbeats(database)}
            return [self._seen(database, one, beats.get(one.name)) for one in self._wanted]

    def register(
        self,
        bootstrap: str,
        settings: Settings,
        say: Say = log.info,
        stop: threading.Event | None = None,
        *,
        pass_refused: bool = False,
    ) -> list[Registered]:
        """Makes or mends each and waits until it runs; nothing is changed where all is well.

        Args:
            bootstrap: Kafka's host:port list.
            settings: names of topics.
            say: is told what takes its time.
            stop: set = give up a back-fill; running it again goes on.
            pass_refused: records that Kafka refuses are left out, until it is run without; the sweep sends
                their rows to the dead letters.

        Raises:
            OpsError: Kafka Connect or Postgres is away or refuses, or a connector does not come to run.
            Unfilterable: the event log's columns are such that a publication can't pick our events.
            KafkaNotReady: topics are missing, or Kafka is away.
            ReplicationRefused: the server or our role is not set up for it.
        """
        stop = stop or threading.Event()
        more = {"errors.tolerance": "all"} if pass_refused else {}
        wanted = [replace(one, config={**one.config, **more}) for one in self._wanted]
        obituary = partial(outcome_of_too_large, language=settings.language)
        outlet = Outlet(bootstrap, settings, obituary=obituary)
        try:
            _ensure_heartbeat_topics(bootstrap, [one.heartbeat_topic for one in self._wanted], settings)
            with asking(self._url), self._database() as database:
                mended = [self._mend(database, outlet, one, stop, say) for one in wanted]
        finally:
            outlet.close()
        if stop.is_set():
            return mended
        for one in mended:
            self._connect.wait_for(one.name, "RUNNING", RUNNING_S)
            # with its first sign of life: from now on a slot that is made anew is noticed, before it was not
            self._connect.wait_position(one.name, RUNNING_S)
        return [replace(one, state="RUNNING") for one in mended]

    def remove(self, *, without_connect: bool = False) -> list[str]:
        """Removes each with its slot and publication; returns what was removed, in words.

        `without_connect`: only what is in Postgres, since Kafka Connect is gone.
        """
        removed = []
        with asking(self._url), self._database() as database:
            for one in self._wanted:
                if not without_connect and self._connect.condition(one.name).state != "ABSENT":
                    # a name that comes back must not begin at a position of its former life
                    self._stop_and_forget(one.name)
                    self._connect.remove(one.name)
                    removed.append(f"connector {one.name}")
                removed += drop(database, publication=one.name, slot=one.name)
                database.execute(load("heartbeat_forget"), {"slot": one.name})
        return removed

    def _database(self) -> psycopg.Connection[tuple[object, ...]]:
        return psycopg.connect(conninfo_for(self._url, "connectors", SESSION), autocommit=True)

    def _seen(self, database: Connection, one: Connector, beat: Heartbeat | None) -> Seen:
        # the slot first: what Kafka has only grows meanwhile
        slot = slot_status(database, one.name)
        condition, position = self._connect.condition(one.name), self._connect.position(one.name)
        silent_s, every_s = (beat.silent_s, beat.every_s) if beat is not None else (None, 0.0)
        return Seen(one.name, one.event_type, condition, slot, position, silent_s, every_s)

    def _mend(
        self, database: Connection, outlet: Outlet, one: Connector, stop: threading.Event, say: Say
    ) -> Registered:
        _check_filter(database)
        ensure_publication(database, one.name, [one.event_type])
        slot = slot_status(database, one.name)
        condition, position = self._connect.condition(one.name), self._connect.position(one.name)
        state = database.execute(load("relay_state"), {"slot": one.name}).fetchone()
        gap = is_gap(slot, position)
        if gap or state is None:
            # noted before the slot is made: a crash in between must not forget it
            note = {"slot": one.name, "margin": BACKFILL_MARGIN}
            state = database.execute(load("relay_note_gap"), note).fetchone()
        if gap:
            say(f"{one.name}: a new slot is made")
            if condition.state != "ABSENT":
                self._stop_and_forget(one.name)
            if slot is not None:
                drop(database, slot=one.name)
        made = ensure_slot(database, one.name)
        # not before: the watch would tell of a slot that is missing
        beat = {"slot": one.name, "every_ms": int(one.config["heartbeat.interval.ms"])}
        database.execute(load("heartbeat_expect"), beat)
        since = cast("datetime | None", state[0]) if state is not None else None
        rows: int | None = 0
        if since is not None:
            rows = backfill(database, outlet, one.name, since, stop, [one.event_type])
            say(f"{one.name}: {rows or 0} rows were read from the table")
        if rows is None:
            return Registered(one.name, one.event_type, made)
        changed = self._run(one, condition)
        return Registered(one.name, one.event_type, made, rows, changed)

    def _run(self, one: Connector, before: Condition) -> bool:
        """Has the connector run as its file says; returns whether it was made or changed."""
        known = self._connect.config(one.name)
        changed = known is None or {**known, "name": ""} != {**one.config, "name": ""}
        if changed:
            self._connect.put(one.name, one.config)
        now = self._connect.condition(one.name).state
        if now in ("STOPPED", "PAUSED"):
            self._connect.resume(one.name)
        elif now == "FAILED" and before.state == "FAILED":
            self._connect.restart_failed(one.name)
        return changed

    def _stop_and_forget(self, name: str) -> None:
        self._connect.stop(name)
        self._connect.wait_for(name, "STOPPED", _STOPPED_S)
        self._connect.forget_position(name)


def _check_filter(database: Connection) -> None:
    """The relay filters what a publication can't; a connector would send every insert to one topic."""
    columns = ["event_type", "status"]
    rows = database.execute(load("filterable_columns"), {"table": TABLE, "columns": columns})
    own = set(columns) - {str(name) for (name,) in rows}
    if own:
        raise Unfilterable(
            f"{' and '.join(sorted(own))} of the event log is of a type of the CRM's own, by which no "
            "publication can filter: let the relay publish (`rajada relay`), which looks itself"
        )


def _ensure_heartbeat_topics(bootstrap: str, names: Sequence[str], settings: Settings) -> None:
    """Kafka Connect would make them only with settings that would also make our own topics, wrongly."""
    admin = AdminClient({**kafka_client(bootstrap), "log_level": 2})
    config = {"retention.ms": str(_HEARTBEATS_KEPT_MS), "min.insync.replicas": str(settings.least_in_sync)}
    wanted = [NewTopic(name, 1, settings.replication_factor, config=config) for name in names]
    for future in admin.create_topics(wanted).values():
        try:
            future.result(_TOPIC_S)
        except KafkaException as error:
            if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
                raise


def register_in_place_of_relay(settings: Settings, url: str, bootstrap: str, database_url: str) -> str:
    """Registers the connectors, then lets go of the relay's slot if nobody reads it; says what it did.

    Everything that this slot still held is pending, and so was read from the table for the connectors' own.
    Raises what `Connectors.register` raises.
    """
    with Connect(url) as connect:
        done = Connectors(connectors(settings, database_url), connect, database_url).register(
            bootstrap, settings
        )
    told = [f"{one.name} {one.state.lower()}" for one in done]
    with asking(database_url), psycopg.connect(database_url, autocommit=True) as database:
        relays = slot_status(database, settings.slot)
        if relays is not None and not relays.active:
            told += [f"dropped the {what} of the relay" for what in drop(database, slot=settings.slot)]
    return ", ".join(told)
