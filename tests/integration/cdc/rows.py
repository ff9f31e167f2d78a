"""Rows of every type that a log may have, and records as they can be compared."""

from __future__ import annotations

import re
import struct
from typing import Any
from uuid import uuid4

import psycopg
from confluent_kafka import Message

from tests.integration.db.conftest import headers_of
from tests.integration.db.crm import AI

COLUMNS = (
    "x_bool bool, x_i2 smallint, x_i8 bigint, x_num numeric(10,2), x_num2 numeric, x_f8 double precision,"
    " x_f4 real, x_date date, x_ts timestamp, x_ts3 timestamp(3), x_tz3 timestamptz(3), x_time time,"
    " x_bytea bytea, x_json json, x_jb jsonb, x_enum mood, x_vc varchar(20), x_char char(5), x_i4a int[],"
    " x_uuida uuid[], x_ta text[], x_inet inet, x_ja jsonb[], x_tza timestamptz[], x_na numeric[],"
    " x_ba bool[], x_oid oid"
)
FULL = {
    "x_bool": True,
    "x_i2": -3,
    "x_i8": 9007199254740993,
    "x_num": "12.30",
    "x_num2": "1e20",
    "x_f8": 1.5,
    "x_f4": 0.1,
    "x_date": "2024-02-29",
    "x_ts": "2024-01-02 03:04:05.000001",
    "x_ts3": "2024-01-02 03:04:05.123",
    "x_tz3": "2024-01-02 03:04:05.5Z",
    "x_time": "13:00:00.5",
    "x_bytea": b"\x00\xff",
    "x_json": '{ "k" : 1.50, "k" : 2 }',
    "x_jb": '{"b": 1, "a": "\\u00e7"}',
    "x_enum": "sad",
    "x_vc": "vc",
    "x_char": "ch",
    "x_i4a": [1, None, 3],
    "x_uuida": "{22222222-2222-4222-8222-22222222222A}",
    "x_ta": ["x", 'y "q"', None, "NULL", "", "a\\b{},"],
    "x_inet": "10.0.0.1",
    "x_ja": '{"{\\"a\\":1}"}',
    "x_tza": '{"2024-01-02 03:04:05Z"}',
    "x_na": "{1.50,2}",
    "x_ba": [True, False],
    "x_oid": 12,
    "last_error": 'á\t"\x01 <é> \U0001f600 \u2028',
    "consumed_by": ["one", "two"],
    "metadata": '{"a": [1, 2]}',
    "next_attempt_at": "infinity",
}
LEAST = {
    "x_f8": "NaN",
    "x_f4": "-Infinity",
    "x_num2": "0.000001",
    "x_date": "1960-01-01",
    "x_ts": "1960-01-01",
    "created_at": "1999-12-31 23:59:59.999999Z",
    "updated_at": "-infinity",
}


def insert_row(connection: psycopg.Connection[Any], **values: object) -> str:
    row = {"organization_id": uuid4(), "event_type": AI, "payload": "{}", **values}
    names = ", ".join(row)
    query = f"INSERT INTO event_log ({names}) VALUES ({', '.join(['%s'] * len(row))}) RETURNING id"
    made = connection.execute(query, list(row.values())).fetchone()  # type: ignore[arg-type]
    assert made is not None
    return str(made[0])


def add_columns(connection: psycopg.Connection[Any]) -> None:
    connection.execute("CREATE TYPE mood AS ENUM ('happy', 'sad')")
    for column in COLUMNS.replace("(10,2)", "(10;2)").split(", "):
        connection.execute(f"ALTER TABLE event_log ADD COLUMN {column.replace(';', ',')}")  # type: ignore[arg-type]


def by_event(messages: list[Message]) -> dict[str, tuple[object, ...]]:
    """What a record is, by its event: key, value, headers in their order, partition."""
    found: dict[str, tuple[object, ...]] = {}
    for one in messages:
        value = as_kafka_connect_writes(one.value() or b"")
        event = headers_of(one)["event_id"].decode()
        found[event] = (one.key(), value, one.headers(), one.partition())
    return found


def as_kafka_connect_writes(value: bytes) -> bytes:
    """The one difference in bytes, none in meaning: what is beyond 16 bits it writes as two escapes."""

    def escaped(found: re.Match[str]) -> str:
        return "".join(f"\\u{unit:04X}" for unit in struct.unpack(">2H", found[0].encode("utf-16-be")))

    return re.sub("[\U00010000-\U0010ffff]", escaped, value.decode()).encode()
