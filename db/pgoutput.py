"""Decodes the messages of Postgres' logical replication plugin `pgoutput` (protocol version 1). Pure.

Only what a publication of inserts sends is taken apart; the rest is named and passed over. Layouts:
PostgreSQL manual, "Logical Replication Message Formats".
"""

from __future__ import annotations

from dataclasses import dataclass
from struct import Struct
from struct import error as StructError

from settings import RajadaError

POSTGRES_EPOCH_MS = 946_684_800_000
"""2000-01-01 UTC in Unix milliseconds: Postgres counts its microseconds from there."""

_U16 = Struct("!H")
_I32 = Struct("!i")
_U32 = Struct("!I")
_BEGIN = Struct("!QqI")
_COMMIT = Struct("!BQQq")


class BrokenMessage(RajadaError):
    """Bytes that are no message of the protocol; the message says which kind and why."""


@dataclass(frozen=True, slots=True)
class Column:
    """A published column: its name, type oid and type modifier (-1: none), and whether it is in the key."""

    name: str
    type_oid: int
    typmod: int = -1
    in_key: bool = False


@dataclass(frozen=True, slots=True)
class Relation:
    """What the rows of a table look like; sent before the first row and again when the table changes."""

    oid: int
    namespace: str
    name: str
    columns: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Begin:
    """Start of a committed transaction; `commit_ms` is its commit time in Unix milliseconds."""

    final_lsn: int
    commit_ms: int
    xid: int


@dataclass(frozen=True, slots=True)
class Commit:
    """End of a transaction; confirming `end_lsn` means that it need not be sent again."""

    commit_lsn: int
    end_lsn: int
    commit_ms: int


@dataclass(frozen=True, slots=True)
class Insert:
    """A new row of relation `oid`; values in the order of its columns, as text, None = null."""

    oid: int
    values: tuple[bytes | None, ...]


@dataclass(frozen=True, slots=True)
class Other:
    """A message that a publisher of inserts passes over: update, delete, truncate, type, origin, message."""

    kind: str


Decoded = Relation | Begin | Commit | Insert | Other

_PASSED_OVER = {
    b"U": "update",
    b"D": "delete",
    b"T": "truncate",
    b"Y": "type",
    b"O": "origin",
    b"M": "message",
}


def decode(data: bytes) -> Decoded:
    """One message.

    Raises:
        BrokenMessage: an unknown kind, a length that doesn't fit, or text that isn't UTF-8.
    """
    kind = data[:1]
    try:
        if kind == b"I":
            return _insert(data)
        if kind == b"B":
            return _begin(data)
        if kind == b"C":
            return _commit(data)
        if kind == b"R":
            return _relation(data)
    except (StructError, IndexError, ValueError) as error:
        raise BrokenMessage(f"pgoutput message {kind!r} of {len(data)} bytes: {error}") from error
    if kind in _PASSED_OVER:
        return Other(_PASSED_OVER[kind])
    raise BrokenMessage(
        f"unknown pgoutput message {kind!r} of {len(data)} bytes: nothing in protocol version 1 has that kind"
    )


def unix_ms(postgres_us: int) -> int:
    """Postgres' microseconds since 2000 as Unix milliseconds, rounded down."""
    return postgres_us // 1000 + POSTGRES_EPOCH_MS


def _begin(data: bytes) -> Begin:
    _whole(data, 1 + _BEGIN.size)
    final_lsn, commit_us, xid = _BEGIN.unpack_from(data, 1)
    return Begin(final_lsn, unix_ms(commit_us), xid)


def _commit(data: bytes) -> Commit:
    _whole(data, 1 + _COMMIT.size)
    _, commit_lsn, end_lsn, commit_us = _COMMIT.unpack_from(data, 1)
    return Commit(commit_lsn, end_lsn, unix_ms(commit_us))


def _relation(data: bytes) -> Relation:
    (oid,) = _U32.unpack_from(data, 1)
    namespace, at = _text(data, 5)
    name, at = _text(data, at)
    (count,) = _U16.unpack_from(data, at + 1)  # one byte of replica identity stands before
    at += 3
    columns: list[Column] = []
    for _ in range(count):
        in_key = bool(data[at] & 1)
        column, at = _text(data, at + 1)
        (type_oid,) = _U32.unpack_from(data, at)
        (typmod,) = _I32.unpack_from(data, at + 4)
        at += 8
        columns.append(Column(column, type_oid, typmod, in_key))
    _whole(data, at)
    # An empty namespace means pg_catalog in the protocol.
    return Relation(oid, namespace or "pg_catalog", name, tuple(columns))


def _insert(data: bytes) -> Insert:
    (oid,) = _U32.unpack_from(data, 1)
    if data[5:6] != b"N":
        raise ValueError(f"a new row was expected, not {data[5:6]!r}")
    (count,) = _U16.unpack_from(data, 6)
    at = 8
    values: list[bytes | None] = []
    for _ in range(count):
        flag = data[at]
        if flag == 0x74:  # 't': text
            (length,) = _U32.unpack_from(data, at + 1)
            start = at + 5
            at = start + length
            values.append(data[start:at])
        elif flag == 0x6E:  # 'n': null
            values.append(None)
            at += 1
        else:
            raise ValueError(f"a value of kind {chr(flag)!r}, only text was asked for")
    _whole(data, at)
    return Insert(oid, tuple(values))


def _text(data: bytes, at: int) -> tuple[str, int]:
    """The null-terminated string at `at`, and where the next field starts."""
    end = data.index(b"\0", at)
    return data[at:end].decode(), end + 1


def _whole(data: bytes, length: int) -> None:
    if len(data) != length:
        raise ValueError(f"{length} bytes were expected")
