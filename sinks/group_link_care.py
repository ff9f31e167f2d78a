"""The care of the queue of group links: stuck rows are asked after, old ones removed (spec/group_link.md).

One sink at a time, by leases, on a connection and a thread of its own; a database without that queue is left
in peace. Both rounds may be broken off anywhere: what is asked twice is answered once, what is left to be
removed is removed in the next night.
"""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Final

import psycopg
import structlog
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from db.leases import Lease, new_holder
from db.pool import conninfo_for
from db.queries import load
from kafka_access import keyed_sender
from schemas.topic_names import CONTROL
from settings import Settings
from sinks.group_link_rows import QueueRow, recovery_of
from sinks.offsets import Database

log = structlog.get_logger(__name__)

RECOVERY_LEASE: Final = "group-links-recovery"
RETENTION_LEASE: Final = "group-links-retention"
LEASE_S: Final = 120.0
STUCK_PAGE: Final = 500
RETIRED_PAGE: Final = 500
PAUSE_S: Final = 0.1
"""Between two batches of removals: nobody else shall feel them."""
NIGHT_HOUR: Final = 3
"""Old rows are removed from 03:00 UTC on."""
DELIVERY_S: Final = 10.0
_SESSION: Final = {
    "statement_timeout": "20s",
    "lock_timeout": "2s",
    "idle_in_transaction_session_timeout": "10s",
}


class GroupLinkCare:
    """Rounds for as long as `run` runs.

    Args:
        url: libpq URL of the database.
        bootstrap: Kafka's host:port list.
        settings: of the installation.
    """

    def __init__(self, url: str, bootstrap: str, settings: Settings) -> None:
        self._conninfo = conninfo_for(url, "sink-group-links", _SESSION)
        self._bootstrap = bootstrap
        self._settings = settings
        self._holder = new_holder()
        self._producer: Producer | None = None
        self._night = datetime.min.replace(tzinfo=UTC)
        """Before this nothing is removed."""

    def run(self, stop: threading.Event) -> None:
        """A round every minute until `stop` is set; whatever goes wrong is told, and the next one tries."""
        while not stop.wait(self._settings.group_links_look_every_s):
            try:
                with psycopg.connect(self._conninfo, autocommit=True) as database:
                    self.recover(database)
                    self.retire(database, stop)
            except psycopg.errors.UndefinedTable:
                log.info("no_group_links", why="the database has no queue of them")
                return
            except (psycopg.Error, OSError, KafkaException) as error:
                log.warning("group_link_care_failed", error=type(error).__name__)
            except Exception:  # a safety net: its own defect must not stop the sink
                log.exception("group_link_care_defect")

    def recover(self, database: Database) -> int:
        """Ask after rows that are stuck; returns how many. Raises psycopg.Error, KafkaException."""
        lease = Lease(database, RECOVERY_LEASE, self._holder, LEASE_S)
        if lease.take() is None:
            return 0
        try:
            values = {"stuck_s": self._settings.group_links_stuck_s, "page": STUCK_PAGE}
            rows = database.execute(load("group_links_stuck"), values).fetchall()
            stuck = [QueueRow(*row) for row in rows]
            if stuck:
                self._ask(stuck)
                log.warning("group_links_stuck", rows=len(stuck))
            return len(stuck)
        finally:
            lease.release(rest_s=self._settings.group_links_look_every_s * 0.9)

    def retire(self, database: Database, stop: threading.Event) -> int:
        """Remove old rows, once a night; returns how many. Raises psycopg.Error."""
        now = datetime.now(UTC)
        if now < self._night:
            return 0
        lease = Lease(database, RETENTION_LEASE, self._holder, LEASE_S)
        if lease.take() is None:
            return 0
        removed = 0
        values = {
            "sent_days": self._settings.group_links_sent_days,
            "failed_days": self._settings.group_links_failed_days,
            "page": RETIRED_PAGE,
        }
        try:
            while lease.take() is not None and not stop.is_set():
                batch = database.execute(load("group_links_retire"), values).rowcount
                removed += batch
                if batch < RETIRED_PAGE:
                    self._night = next_night(now)
                    break
                stop.wait(PAUSE_S)
        finally:
            rest_s = max((self._night - datetime.now(UTC)).total_seconds(), 0.0)
            lease.release(rest_s=rest_s)
        if removed:
            log.info("group_links_removed", rows=removed)
        return removed

    def _ask(self, stuck: list[QueueRow]) -> None:
        """Returns when all commands are durable. Raises KafkaException."""
        producer = self._connected()
        failed: list[KafkaError] = []

        def told(error: KafkaError | None, _: Message) -> None:
            if error is not None:
                failed.append(error)

        topic, now_ms = self._settings.topic(CONTROL), time.time_ns() // 1_000_000
        for row in stuck:
            key, value = recovery_of(row, now_ms)
            producer.produce(topic, value, key, on_delivery=told)
        if producer.flush(DELIVERY_S) or failed:
            raise KafkaException(failed[0] if failed else KafkaError(KafkaError._MSG_TIMED_OUT))

    def _connected(self) -> Producer:
        if self._producer is None:
            sender = keyed_sender(self._bootstrap, "rajada-sink-group-links", DELIVERY_S)
            self._producer = Producer(sender)
        return self._producer


def next_night(now: datetime) -> datetime:
    """The next time, after `now`, at which old rows are removed (UTC)."""
    tonight = now.replace(hour=NIGHT_HOUR, minute=0, second=0, microsecond=0)
    return tonight if tonight > now else tonight + timedelta(days=1)
