"""Where `rajada produce` writes: the table `event_log`, or the source topics as the publisher would.

Both tell up to which line everything is durable, so that a run that ends early can be gone on with.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, Protocol
from uuid import uuid4

import psycopg
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from db.pool import conninfo_for, is_away
from db.publisher import EVENT_TYPES
from db.queries import load
from kafka_access import keyed_sender
from ops.errors import OpsError
from ops.event_lines import EventLine, LineError
from ops.event_record import record_of
from schemas.topic_names import PRODUCE_ID
from settings import Settings

_KAFKA_ANSWERS_S: Final = 10.0
_DELIVERY_S: Final = 60.0
_TRANSACTION_MS: Final = 900_000
"""What brokers allow at most unless told otherwise; the topic's windows wait while it is open."""
_POLL_S: Final = 0.2


class TargetFailed(OpsError):
    """The table or the topic can't be written any more; the message says why and what to do."""

    exit_code = 7


class Target(Protocol):
    """Takes rows in batches; with `atomic` nothing is visible before `finish`."""

    name: str
    """What people read: the table, or the topic."""
    written: int
    """Rows that were taken and are new."""
    already: int
    """Rows that were there before."""

    def write(self, rows: Sequence[EventLine]) -> list[LineError]:
        """Write rows in their order; returns what was refused. Raises TargetFailed."""

    def undurable(self) -> int | None:
        """The first line that was taken and isn't durable yet; None when all are."""

    def finish(self) -> None:
        """Make everything durable and visible. Raises TargetFailed."""

    def abort(self) -> None:
        """Give up: undo everything if atomic, else leave what is written."""


class Table:
    """The table `event_log` of a database."""

    name = "event_log"

    def __init__(self, url: str, *, atomic: bool) -> None:
        self._atomic = atomic
        self._open_since: int | None = None
        self.written = self.already = 0
        try:
            self._connection = psycopg.connect(conninfo_for(url, "produce"), autocommit=not atomic)
        except psycopg.Error as error:
            raise _postgres_failed(error) from error

    def write(self, rows: Sequence[EventLine]) -> list[LineError]:
        """See `Target`; a row that Postgres refuses is found by halving."""
        if self._atomic and self._open_since is None and rows:
            self._open_since = rows[0].line
        try:
            return self._insert(rows)
        except psycopg.Error as error:
            raise _postgres_failed(error) from error

    def undurable(self) -> int | None:
        """See `Target`."""
        return self._open_since

    def finish(self) -> None:
        """Commit."""
        try:
            self._connection.commit()
        except psycopg.Error as error:
            raise _postgres_failed(error) from error
        self._open_since = None
        self._connection.close()

    def abort(self) -> None:
        """Roll back what is not committed."""
        self._connection.close()
        if self._atomic:
            self.written = self.already = 0

    def _insert(self, rows: Sequence[EventLine]) -> list[LineError]:
        try:
            with self._connection.transaction():
                inserted = self._connection.execute(load("produce_events"), _columns(rows)).rowcount
        except psycopg.DatabaseError as error:
            if is_away(error) or isinstance(error, psycopg.ProgrammingError):
                raise
            if len(rows) == 1:
                return [LineError(rows[0].line, "", f"Postgres refuses the row: {_first_line(error)}")]
            middle = len(rows) // 2
            return self._insert(rows[:middle]) + self._insert(rows[middle:])
        self.written += inserted
        self.already += len(rows) - inserted
        return []


class Topic:
    """The source topics, one for each event type; key and partition as the publisher's."""

    def __init__(self, bootstrap: str, settings: Settings, *, atomic: bool) -> None:
        self._topics = {event_type: settings.topic(event_type) for event_type in EVENT_TYPES}
        self.name = self._topics[EVENT_TYPES[0]]
        self._bootstrap = bootstrap
        self._atomic = atomic
        self._pending: dict[int, None] = {}
        self._failure: KafkaError | None = None
        self.written = self.already = 0
        self._producer = Producer(
            {
                **keyed_sender(bootstrap, "rajada-produce", _DELIVERY_S),
                "linger.ms": 5,
                "message.max.bytes": 8 * 1024 * 1024,
                **(
                    {
                        "transactional.id": f"{PRODUCE_ID}{uuid4()}",
                        "transaction.timeout.ms": _TRANSACTION_MS,
                    }
                    if atomic
                    else {}
                ),
            }
        )
        self._check()
        if atomic:
            self._call(self._producer.init_transactions, _KAFKA_ANSWERS_S)
            self._call(self._producer.begin_transaction)

    def write(self, rows: Sequence[EventLine]) -> list[LineError]:
        """See `Target`."""
        now_ms = time.time_ns() // 1_000_000
        for row in rows:
            key, value, headers = record_of(row, now_ms)
            self._pending[row.line] = None
            while True:
                try:
                    self._producer.produce(
                        self._topics[row.event_type],
                        value,
                        key,
                        headers=headers,
                        on_delivery=partial(self._delivered, row.line),
                    )
                    break
                except BufferError:
                    self._producer.poll(_POLL_S)
                    self._raise_failure()
                except KafkaException as error:
                    raise _kafka_failed(self._bootstrap, error.args[0]) from error
        self._producer.poll(0)
        self._raise_failure()
        return []

    def undurable(self) -> int | None:
        """See `Target`."""
        return next(iter(self._pending), None)

    def finish(self) -> None:
        """Wait until every record is acknowledged, then commit if atomic."""
        while self._producer.flush(_POLL_S):
            self._raise_failure()
        self._raise_failure()
        if self._atomic:
            self._call(self._producer.commit_transaction, _DELIVERY_S)

    def abort(self) -> None:
        """Abort the transaction if atomic; else deliver what is on its way."""
        if not self._atomic:
            self._producer.flush(_KAFKA_ANSWERS_S)
            return
        self.written = 0
        self._producer.purge()
        try:
            self._producer.abort_transaction(_KAFKA_ANSWERS_S)
        except KafkaException:
            return  # Kafka is away: it aborts the transaction itself when its time is over

    def _delivered(self, line: int, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.written += 1
            self._pending.pop(line, None)
        elif self._failure is None:
            self._failure = error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise _kafka_failed(self._bootstrap, self._failure)

    def _check(self) -> None:
        """Topics are never made by a producer: a missing one is told before anything is sent."""
        try:
            known = self._producer.list_topics(timeout=_KAFKA_ANSWERS_S).topics
        except KafkaException as error:
            raise _kafka_failed(self._bootstrap, error.args[0]) from error
        missing = [topic for topic in self._topics.values() if topic not in known]
        if missing:
            raise TargetFailed(
                f"Kafka at {self._bootstrap} has no topic {', '.join(missing)}. Make it with `rajada topics "
                "ensure`, or correct RAJADA_TOPIC_PREFIX."
            )

    def _call(self, work: Callable[..., object], *arguments: float) -> None:
        try:
            work(*arguments)
        except KafkaException as error:
            raise _kafka_failed(self._bootstrap, error.args[0]) from error


def _columns(rows: Sequence[EventLine]) -> dict[str, list[str] | list[str | None]]:
    return {
        "ids": [row.id for row in rows],
        "organizations": [row.organization_id for row in rows],
        "event_types": [row.event_type for row in rows],
        "entity_kinds": [row.entity_kind for row in rows],
        "entity_ids": [row.entity_id for row in rows],
        "payloads": [row.payload for row in rows],
        "metadata": [row.metadata for row in rows],
    }


def _first_line(error: psycopg.Error) -> str:
    return (error.diag.message_primary or str(error)).partition("\n")[0][:300]


def _postgres_failed(error: psycopg.Error) -> TargetFailed:
    if isinstance(error, psycopg.errors.UndefinedTable):
        return TargetFailed("The database has no table event_log. Make it with `rajada migrate`.")
    if is_away(error):
        return TargetFailed(f"Postgres does not answer: {_first_line(error)}. Is DATABASE_URL right?")
    return TargetFailed(f"Postgres refuses: {_first_line(error)}.")


def _kafka_failed(bootstrap: str, error: KafkaError) -> TargetFailed:
    return TargetFailed(
        f"Kafka at {bootstrap} did not take a record: {error.str()}. Is it running, and is "
        "KAFKA_BOOTSTRAP_SERVERS right?"
    )
