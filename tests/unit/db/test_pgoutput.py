"""pgoutput by its bytes: what is written there is what the manual says, built here by hand."""

from __future__ import annotations

import contextlib
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.pgoutput import (
    Begin,
    BrokenMessage,
    Column,
    Commit,
    Insert,
    Other,
    Relation,
    decode,
    unix_ms,
)

names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=20)
oids = st.integers(0, 2**32 - 1)
lsns = st.integers(0, 2**64 - 1)


def relation_bytes(relation: Relation) -> bytes:
    body = struct.pack("!I", relation.oid)
    body += relation.namespace.encode() + b"\0" + relation.name.encode() + b"\0" + b"d"
    body += struct.pack("!H", len(relation.columns))
    for column in relation.columns:
        body += struct.pack("!B", column.in_key) + column.name.encode() + b"\0"
        body += struct.pack("!Ii", column.type_oid, column.typmod)
    return b"R" + body


def insert_bytes(oid: int, values: list[bytes | None]) -> bytes:
    body = struct.pack("!I", oid) + b"N" + struct.pack("!H", len(values))
    for value in values:
        body += b"n" if value is None else b"t" + struct.pack("!I", len(value)) + value
    return b"I" + body


def test_begin_carries_the_commit_time() -> None:
    data = b"B" + struct.pack("!QqI", 0x16B3748, 757_382_400_123_999, 501)
    assert decode(data) == Begin(0x16B3748, 1_704_067_200_123, 501)


def test_commit_carries_the_end_of_the_transaction() -> None:
    data = b"C" + struct.pack("!BQQq", 0, 10, 20, 0)
    assert decode(data) == Commit(10, 20, 946_684_800_000)


def test_times_before_2000_round_down_like_all_others() -> None:
    assert unix_ms(-1) == 946_684_799_999


def test_relation_names_columns_types_and_key() -> None:
    relation = Relation(
        16_400, "public", "event_log", (Column("id", 2950, -1, True), Column("çá", 1184, 3, False))
    )
    assert decode(relation_bytes(relation)) == relation


def test_a_relation_without_namespace_is_of_pg_catalog() -> None:
    decoded = decode(relation_bytes(Relation(1, "", "t", ())))
    assert decoded == Relation(1, "pg_catalog", "t", ())


def test_insert_tells_null_from_empty() -> None:
    assert decode(insert_bytes(7, [b"a", None, b""])) == Insert(7, (b"a", None, b""))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (b"U", "update"),
        (b"D", "delete"),
        (b"T", "truncate"),
        (b"Y", "type"),
        (b"O", "origin"),
        (b"M", "message"),
    ],
)
def test_what_is_not_published_is_passed_over(kind: bytes, name: str) -> None:
    assert decode(kind + b"whatever") == Other(name)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"?",
        b"B",
        b"B" + bytes(21),
        b"C" + bytes(24),
        b"I" + bytes(4),
        b"I" + bytes(4) + b"O" + bytes(2),
        b"I" + bytes(4) + b"N" + b"\0\1",
        b"I" + bytes(4) + b"N" + b"\0\1" + b"t" + b"\0\0\0\5" + b"abc",
        b"I" + bytes(4) + b"N" + b"\0\1" + b"u",
        b"I" + bytes(4) + b"N" + b"\0\1" + b"b" + b"\0\0\0\1a",
        b"I" + bytes(4) + b"N" + b"\0\0" + b"more",
        b"R" + bytes(4) + b"no end",
        b"R" + bytes(4) + b"\0" + b"\xff\0" + b"d" + b"\0\0",
    ],
)
def test_broken_messages_are_named_as_such(data: bytes) -> None:
    with pytest.raises(BrokenMessage):
        decode(data)


@pytest.mark.thorough
@given(
    oids,
    names.filter(bool),
    names,
    st.lists(st.builds(Column, names, oids, st.integers(-(2**31), 2**31 - 1), st.booleans()), max_size=5),
)
def test_any_relation_comes_back(oid: int, namespace: str, name: str, columns: list[Column]) -> None:
    relation = Relation(oid, namespace, name, tuple(columns))
    assert decode(relation_bytes(relation)) == relation


@given(oids, st.lists(st.one_of(st.none(), st.binary(max_size=50)), max_size=20))
def test_any_insert_comes_back(oid: int, values: list[bytes | None]) -> None:
    assert decode(insert_bytes(oid, values)) == Insert(oid, tuple(values))


@pytest.mark.thorough
@given(oids, st.lists(st.one_of(st.none(), st.binary(max_size=9)), max_size=9), st.integers(0, 60))
def test_a_message_cut_short_is_broken_never_half_read(
    oid: int, values: list[bytes | None], keep: int
) -> None:
    whole = insert_bytes(oid, values)
    cut = whole[:keep]
    if len(cut) < len(whole):
        with pytest.raises(BrokenMessage):
            decode(cut)


@given(st.sampled_from([b"B", b"C", b"I", b"R", b""]), st.binary(max_size=80))
def test_any_bytes_are_decoded_or_called_broken(kind: bytes, rest: bytes) -> None:
    with contextlib.suppress(BrokenMessage):
        decode(kind + rest)
