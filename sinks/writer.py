"""One transaction a batch: offsets, events, jobs, trace and alerts, all or nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import psycopg
import structlog

from db.pool import conninfo_for
from db.queries import load
from sinks import raised
from sinks.alerts import note_conditions, raise_alerts
from sinks.batch import Batch, moves_of
from sinks.failures import PostgresAway, Unavailable, verdict
from sinks.offsets import Database, advance, read_positions
from sinks.rows import TroubleRow
from sinks.transaction import alerts, write_rows

log = structlog.get_logger(__name__)

SESSION: Final = {
    # Every statement looks rows up by key. A plan that reads a whole table would only be chosen on missing
    # statistics, and stall the sink.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "jit": "off",
    # One plan for all times would be that of the tables as they were when the sink started, perhaps empty.
    "plan_cache_mode": "force_custom_plan",
    # A frozen sink's transaction ends by itself: its successor need not wait for its row locks.
    "idle_in_transaction_session_timeout": "10s",
    "lock_timeout": "5s",
    "statement_timeout": "30s",
}
CHECK_EVERY_S: Final = 5.0
UPKEEP_EVERY_S: Final = 3600.0
PARTITIONS_AHEAD_DAYS: Final = 8
TRACE_KEPT_DAYS: Final = 30


class Writer:
    """The sink's connection to Postgres; connects when needed, and again after it broke."""

    def __init__(self, url: str) -> None:
        self._conninfo = conninfo_for(url, "sink", SESSION)
        self._database: Database | None = None
        self.lasted_ms = (0, 0)
        """From when to when the last batch was written, Unix ms."""
        self._check_at = 0.0
        self._upkeep_at = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    def positions(self, topic_id: str, topic: str, partitions: Collection[int]) -> dict[int, int]:
        """The next offset of each partition as Postgres has it; Unavailable when it can't be asked."""
        try:
            return read_positions(self._connected(), topic_id, topic, partitions)
        except psycopg.Error as error:
            self._drop()
            raise PostgresAway(str(verdict(error))) from error

    def write(self, topic_id: str, batch: Batch, positions: Mapping[int, int]) -> dict[int, int]:
        """Write a batch and its offsets; returns the new positions of the partitions it moved.

        Raises PositionMoved, Refused or Unavailable; then nothing was written, save when the connection
        broke during the commit: read the positions again before going on.
        """
        moves = moves_of(batch.taken, positions)
        began_ms = _now_ms()
        try:
            database = self._connected()
            with database.transaction():
                advance(database, topic_id, moves)
                fresh = write_rows(database, batch.prepared)
                raise_alerts(database, alerts(database, batch.prepared.outcomes, fresh, batch.conditions))
        except psycopg.Error as error:
            meaning = verdict(error)
            if isinstance(meaning, Unavailable):
                self._drop()
            raise meaning from error
        self.lasted_ms = (began_ms, _now_ms())
        return {move.partition: move.next for move in moves}

    def tell(self, conditions: Sequence[TroubleRow]) -> None:
        """Write what the sink itself has to tell, without a batch; raises PostgresAway."""
        try:
            database = self._connected()
            with database.transaction():
                raise_alerts(database, raised.counted(note_conditions(database, conditions)))
        except psycopg.Error as error:
            self._drop()
            raise PostgresAway(str(verdict(error))) from error

    def check(self) -> None:
        """Now and then while there is nothing to write: is Postgres there? Raises Unavailable."""
        if time.monotonic() < self._check_at:
            return
        try:
            self._connected().execute("SELECT")
        except psycopg.Error as error:
            self._drop()
            raise PostgresAway(str(verdict(error))) from error
        self._check_at = time.monotonic() + CHECK_EVERY_S

    def upkeep(self) -> None:
        """Once an hour: make the trace's daily partitions ahead and drop the old ones.

        Failing is logged and stops nothing: rows of a day without a partition go to the default one.
        """
        now = time.monotonic()
        if now < self._upkeep_at:
            return
        self._upkeep_at = now + UPKEEP_EVERY_S
        try:
            kept = {"ahead": PARTITIONS_AHEAD_DAYS, "keep": TRACE_KEPT_DAYS}
            row = self._connected().execute(load("sink_trace_partitions"), kept).fetchone()
        except psycopg.Error as error:
            log.warning("trace_upkeep_failed", error=type(error).__name__, sqlstate=error.sqlstate)
            return
        if row is not None and any(row):
            log.info("trace_upkeep", made=row[0], dropped=row[1])

    def _connected(self) -> Database:
        if self._database is None or self._database.closed:
            self._database = psycopg.connect(self._conninfo, autocommit=True)
        return self._database

    def _drop(self) -> None:
        if self._database is not None:
            with contextlib.suppress(psycopg.Error):
                self._database.close()
            self._database = None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
