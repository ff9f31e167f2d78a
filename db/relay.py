"""The relay: publishes the event log from Postgres' replication stream, without Kafka Connect.

What it guarantees stands in `db.publisher`. Its rules:
- a position is confirmed to Postgres only when Kafka has acknowledged all before it (`db.confirmations`);
  with nothing in flight, what the server says it has sent is confirmed too;
- Postgres away: connect again with backoff. Kafka away: wait, and let Postgres keep the WAL;
- a record above the topic's limit goes to the dead letters, it stops nobody;
- a slot that is missing or lost is told loudly, made anew, and the table is read for what it missed.
"""

from __future__ import annotations

import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from datetime import datetime, timedelta
from functools import partial
from typing import Final, cast

import psycopg
import structlog

import status
from db.backfill import backfill
from db.column_values import SESSION
from db.confirmations import Confirmations, Transaction
from db.outlet import Acknowledge, KafkaNotReady, Obituary, Outlet, SendFailed
from db.pgoutput import Begin, Commit, Insert, Other, Relation, decode
from db.pool import conninfo_for, first_line, is_away
from db.publisher import Origin, Publisher, RowShape
from db.queries import load
from db.relay_counting import RelayCounts
from db.replication import TABLE, drop, ensure_publication, ensure_slot, slot_status
from db.replication_stream import Change, Keepalive, ReplicationStream, SlotBusy, SlotGone
from settings import RajadaError, Settings
from telemetry import pulse, tracing
from telemetry.serving import serve

log = structlog.get_logger(__name__)

BACKFILL_MARGIN: Final = timedelta(minutes=10)
"""How long a transaction may have been open when its rows' created_at is compared with commit times."""

_READ_S: Final = 0.05
_CONFIRM_S: Final = 0.1
_SIGN_OF_LIFE_S: Final = 5.0
_NOTE_S: Final = 5.0
_STALLED_S: Final = 10.0
_BACKOFF_S: Final = (0.1, 10.0)
_STEADY_S: Final = 5.0
"""A stream that lasted this long makes the next failure the first one."""
_FLUSH_S: Final = 5.0
_SLOW_SLOT_S: Final = 2.0

Connection = psycopg.Connection[tuple[object, ...]]


class NotMigrated(RajadaError):
    """The database has no schema `rajada`."""


def run_relay(
    url: str,
    bootstrap: str,
    settings: Settings,
    stop: threading.Event,
    *,
    obituary: Obituary | None = None,
) -> None:
    """Publishes until `stop` is set; returns after a last confirmation.

    Args:
        url: libpq URL of the CRM's database, of a role with REPLICATION that owns `event_log`.
        bootstrap: Kafka's host:port list.
        settings: names of slot, publication and topics.
        stop: set by whoever ends the process; noticed within a tenth of a second.
        obituary: what is told of a row that is too large to be published (`db.outlet`).

    Raises:
        RajadaError: what waiting can't cure (not migrated, names taken, settings of the server).
    """
    publisher: Publisher = Relay(url, bootstrap, settings, obituary=obituary)
    publisher.run(stop)


class Relay:
    """One relay; readiness is reported as `relay` (module `status`)."""

    def __init__(
        self, url: str, bootstrap: str, settings: Settings, *, obituary: Obituary | None = None
    ) -> None:
        self._url = url
        self._obituary = obituary
        self._bootstrap = bootstrap
        self._settings = settings
        self._counts = RelayCounts()
        self._slot_unusable = False
        self._failures = 0
        self._ready_at = math.inf

    def run(self, stop: threading.Event) -> None:
        """See `run_relay`."""
        tracing.begin(self._settings, "relay")
        serve(self._settings, "relay", self._counts.readings)
        while not stop.is_set():
            pulse.beat()
            try:
                self._connect_and_publish(stop)
            except (KafkaNotReady, SendFailed, SlotBusy) as error:
                self._wait(stop, str(error))
            except SlotGone as error:
                self._slot_unusable = True
                self._wait(stop, str(error))
            except psycopg.errors.UndefinedObject as error:
                # The publication was dropped: this slot can't decode what was written meanwhile, ever.
                self._slot_unusable = True
                self._wait(stop, f"Postgres: {first_line(error)}")
            except psycopg.errors.UndefinedTable as error:
                raise NotMigrated(f"run `rajada migrate` on this database first: {error}") from error
            except psycopg.Error as error:
                if not is_away(error):
                    log.error("postgres_refused", error=type(error).__name__, sqlstate=error.sqlstate)
                self._wait(stop, f"Postgres: {first_line(error)}")
        status.report("relay", "waiting", "stopped")

    def _wait(self, stop: threading.Event, reason: str) -> None:
        least, most = _BACKOFF_S
        if time.monotonic() - self._ready_at > _STEADY_S:
            self._failures = 0
        pause = min(least * 2**self._failures, most)
        self._failures += 1
        self._ready_at = math.inf
        status.report("relay", "waiting", reason)
        log.warning("relay_waits", reason=reason, seconds=pause)
        stop.wait(pause)

    def _connect_and_publish(self, stop: threading.Event) -> None:
        outlet = Outlet(self._bootstrap, self._settings, obituary=self._obituary, counts=self._counts)
        self._counts.unacknowledged = outlet.__len__
        try:
            with psycopg.connect(
                conninfo_for(self._url, "relay-control", SESSION), autocommit=True
            ) as control:
                if self._prepare(control, outlet, stop):
                    slot, publication = self._settings.slot, self._settings.publication
                    with ReplicationStream(self._url, slot=slot, publication=publication) as stream:
                        self._counts.backlog = lambda: stream.backlog
                        _Run(stream, outlet, control, slot).publish(stop, self._started)
        finally:
            outlet.close()

    def _started(self) -> None:
        self._ready_at = time.monotonic()
        status.report("relay", "ready")
        log.info("relay_ready", slot=self._settings.slot, publication=self._settings.publication)

    def _prepare(self, control: Connection, outlet: Outlet, stop: threading.Event) -> bool:
        """Publication, slot, and what a new slot has missed; False when stopped meanwhile."""
        slot = self._settings.slot
        # The publication first: a slot can't decode changes from before it.
        ensure_publication(control, self._settings.publication)
        found = slot_status(control, slot)
        state = control.execute(load("relay_state"), {"slot": slot}).fetchone()
        if found is None or found.lost or self._slot_unusable or state is None:
            if state is not None:
                log.error(
                    "slot_lost",
                    slot=slot,
                    wal_status=found.wal_status if found else "absent",
                    next="a new slot is made and the event log is read for what it missed",
                )
            # Noted before the slot is made: a crash in between must not forget it.
            state = control.execute(
                load("relay_note_gap"), {"slot": slot, "margin": BACKFILL_MARGIN}
            ).fetchone()
            if found is not None and (found.lost or self._slot_unusable):
                drop(control, slot=slot)
            if not self._make_slot(control, stop):
                return False
            self._slot_unusable = False
        else:
            ensure_slot(control, slot)  # whether it is ours
        since = cast("datetime | None", state[0]) if state is not None else None
        return since is None or backfill(control, outlet, slot, since, stop) is not None

    def _make_slot(self, control: Connection, stop: threading.Event) -> bool:
        """Makes the slot; False when stopped meanwhile.

        Postgres waits there for every transaction that is open anywhere on the server, so this may take
        as long as the longest of them: it is told, and it can be stopped.
        """
        asked_at = time.monotonic()
        with ThreadPoolExecutor(1) as pool:
            made = pool.submit(ensure_slot, control, self._settings.slot)
            while not made.done():
                pulse.beat()
                if stop.wait(0.02):
                    control.cancel_safe()
                    wait([made])
                    return False
                if time.monotonic() - asked_at > _SLOW_SLOT_S:
                    asked_at = math.inf
                    reason = "the new replication slot waits for open transactions to end"
                    status.report("relay", "waiting", reason)
                    log.warning("relay_waits", reason=reason)
            made.result()
        return True


class _Run:
    """One replication stream, from its start to its end."""

    def __init__(self, stream: ReplicationStream, outlet: Outlet, control: Connection, slot: str) -> None:
        self._stream = stream
        self._outlet = outlet
        self._control = control
        self._slot = slot
        self._confirmations = Confirmations()
        self._shapes: dict[int, RowShape | None] = {}
        self._transaction: Transaction | None = None
        self._acknowledge: Acknowledge | None = None
        self._noted_ms: int | None = None
        self._noted_at = self._progress_at = time.monotonic()
        self._stalled = False

    def publish(self, stop: threading.Event, started: Acknowledge) -> None:
        """Until `stop` is set; then waits a moment for Kafka and confirms what it has."""
        started()
        while not stop.is_set():
            asked = False
            for message in self._stream.read(_READ_S):
                if isinstance(message, Keepalive):
                    self._confirmations.idle(message.wal_end)
                    asked |= message.reply
                else:
                    self._publish(message, stop)
            self._tend(at_once=asked)
        deadline = time.monotonic() + _FLUSH_S
        while len(self._outlet) and time.monotonic() < deadline:
            self._outlet.pump(0.1)
        self._tend(at_once=True)
        self._note()

    def _publish(self, change: Change, stop: threading.Event) -> None:
        message = decode(change.data)
        if isinstance(message, Insert):
            shape = self._shapes[message.oid]
            if shape is None or self._transaction is None or not shape.is_published(message.values):
                return
            record = shape.record(message.values, Origin(change.lsn, self._transaction.commit_ms))
            assert self._acknowledge is not None
            self._confirmations.sent()
            while not self._outlet.send(record, self._acknowledge):
                if stop.is_set():
                    return  # not acknowledged, so not confirmed: it comes again
                self._tend(pump_s=0.1)
        elif isinstance(message, Begin):
            self._transaction = self._confirmations.begin(message.commit_ms)
            self._acknowledge = partial(self._confirmations.acknowledged, self._transaction)
        elif isinstance(message, Commit):
            self._confirmations.commit(message.end_lsn)
            self._transaction = None
        elif isinstance(message, Relation):
            self._shapes[message.oid] = RowShape(message.columns) if message.name == TABLE else None
        else:
            assert isinstance(message, Other)

    def _tend(self, *, at_once: bool = False, pump_s: float = 0.0) -> None:
        """Serves Kafka's acknowledgements and tells Postgres what is safe, often enough to live."""
        acknowledged = self._outlet.pump(pump_s)
        safe, silent_s = self._confirmations.safe_lsn, self._stream.silent_s
        news = safe > self._stream.confirmed and silent_s >= _CONFIRM_S
        if at_once or news or silent_s >= _SIGN_OF_LIFE_S:
            self._stream.confirm(safe)
        now = time.monotonic()
        if now - self._noted_at >= _NOTE_S:
            self._note()
        if acknowledged or not self._confirmations.in_flight:
            self._progress_at = now
            if self._stalled:
                self._stalled = False
                status.report("relay", "ready")
                log.info("kafka_acknowledges_again")
        elif now - self._progress_at >= _STALLED_S and not self._stalled:
            self._stalled = True
            status.report("relay", "waiting", "Kafka acknowledges nothing")
            log.error("kafka_acknowledges_nothing", unacknowledged=len(self._outlet))

    def _note(self) -> None:
        """Writes down how far we came: from there the table is read should the slot be lost."""
        self._noted_at = time.monotonic()
        commit_ms = self._confirmations.safe_commit_ms
        if commit_ms is not None and commit_ms != self._noted_ms:
            self._control.execute(
                load("relay_confirmed"),
                {"slot": self._slot, "lsn": self._confirmations.safe_lsn, "commit_ms": commit_ms},
            )
            self._noted_ms = commit_ms
