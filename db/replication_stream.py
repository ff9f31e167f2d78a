"""The replication connection: START_REPLICATION over libpq, what comes in, what is confirmed.

psycopg 3 has no replication interface of its own; its libpq wrapper has all that is needed. Layouts:
PostgreSQL manual, "Streaming Replication Protocol". Not for several threads.
"""

from __future__ import annotations

import select
import time
from dataclasses import dataclass
from struct import Struct
from types import TracebackType

import psycopg
from psycopg import pq

from db.column_values import SESSION
from db.pgoutput import POSTGRES_EPOCH_MS
from db.pool import conninfo_for
from settings import RajadaError

_XLOG_DATA = Struct("!QQq")
_KEEPALIVE = Struct("!QqB")
_STATUS = Struct("!cQQQqB")


class SlotGone(RajadaError):
    """The slot doesn't exist or can't be read any more; a new one and a back-fill are needed."""


class SlotBusy(RajadaError):
    """Another process reads the slot; wait for it to end."""


class StreamEnded(psycopg.OperationalError):
    """The server ended the stream (shutdown, or it cut us off): connect again."""


@dataclass(frozen=True, slots=True)
class Change:
    """A message of the output plugin, and its position in the WAL."""

    lsn: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The server has sent everything up to `wal_end`; `reply` asks for a status at once."""

    wal_end: int
    reply: bool


class ReplicationStream:
    """One run of START_REPLICATION on a slot, from what was confirmed last.

    Raises on construction:
        SlotGone: the slot is missing or its WAL was removed.
        SlotBusy: another process reads it.
        psycopg.Error: anything else, see `db.pool.is_away`.
    """

    def __init__(self, url: str, *, slot: str, publication: str) -> None:
        self._connection = psycopg.connect(
            conninfo_for(url, "relay", SESSION), autocommit=True, replication="database"
        )
        self._pgconn = self._connection.pgconn
        try:
            self._start(slot, publication)
        except BaseException:
            self._connection.close()
            raise
        self._poll = select.poll()
        self._poll.register(self._pgconn.socket, select.POLLIN)
        self._confirmed = 0
        self.reached = 0
        """LSN up to which the server has sent."""
        self._told_at = time.monotonic()

    def __enter__(self) -> ReplicationStream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def read(self, timeout_s: float, limit: int = 500) -> list[Change | Keepalive]:
        """What has come in, in order: at most `limit` messages, after at most `timeout_s` when idle.

        Raises:
            StreamEnded: the server ended the stream.
            psycopg.OperationalError: the connection broke.
        """
        messages = self._received(limit)
        if not messages and self._poll.poll(timeout_s * 1000):
            self._pgconn.consume_input()
            messages = self._received(limit)
        if messages:
            last = messages[-1]
            self.reached = max(self.reached, last.lsn if isinstance(last, Change) else last.wal_end)
        return messages

    def confirm(self, lsn: int) -> None:
        """Tells the server that everything up to `lsn` is durable elsewhere; positions never go back.

        Also the sign of life: call it at least every few seconds (wal_sender_timeout).
        """
        self._confirmed = max(self._confirmed, lsn)
        self._told_at = time.monotonic()
        now_us = (time.time_ns() // 1_000_000 - POSTGRES_EPOCH_MS) * 1000
        self._pgconn.put_copy_data(
            _STATUS.pack(b"r", self._confirmed, self._confirmed, self._confirmed, now_us, 0)
        )
        self._pgconn.flush()

    @property
    def confirmed(self) -> int:
        """The position last told to the server; 0 = none by this stream."""
        return self._confirmed

    @property
    def backlog(self) -> int:
        """Bytes that the server has sent and we have not confirmed; 0 before the first confirmation."""
        return max(self.reached - self._confirmed, 0) if self._confirmed else 0

    @property
    def silent_s(self) -> float:
        """Seconds since the server last heard of us."""
        return time.monotonic() - self._told_at

    def _start(self, slot: str, publication: str) -> None:
        # Position 0/0: the server goes on from what the slot holds as confirmed.
        command = (
            f'START_REPLICATION SLOT "{slot}" LOGICAL 0/0 '
            f"(proto_version '1', publication_names '\"{publication}\"')"
        )
        result = self._pgconn.exec_(command.encode())
        if result.status == pq.ExecStatus.COPY_BOTH:
            return
        error = psycopg.errors.error_from_result(result)
        if isinstance(error, psycopg.errors.ObjectInUse):
            raise SlotBusy(f"another process reads the replication slot {slot}") from error
        # 42704: there is none. 55000: "can no longer get changes" from a lost or invalidated one.
        if isinstance(error, psycopg.errors.UndefinedObject | psycopg.errors.ObjectNotInPrerequisiteState):
            raise SlotGone(f"the replication slot {slot} can't be read: {error}") from error
        raise error

    def _received(self, limit: int) -> list[Change | Keepalive]:
        messages: list[Change | Keepalive] = []
        while len(messages) < limit:
            length, data = self._pgconn.get_copy_data(1)
            if length == 0:
                break
            if length < 0:
                raise self._end()
            messages.append(_message(bytes(data)))
        return messages

    def _end(self) -> psycopg.Error:
        result = self._pgconn.get_result()
        if result is not None and result.status == pq.ExecStatus.FATAL_ERROR:
            return psycopg.errors.error_from_result(result)
        return StreamEnded("the server ended the replication stream")


def _message(data: bytes) -> Change | Keepalive:
    kind = data[:1]
    if kind == b"w":
        start, _, _ = _XLOG_DATA.unpack_from(data, 1)
        return Change(start, data[1 + _XLOG_DATA.size :])
    if kind == b"k":
        wal_end, _, reply = _KEEPALIVE.unpack_from(data, 1)
        return Keepalive(wal_end, bool(reply))
    raise StreamEnded(f"unknown message {kind!r} in the replication stream")
