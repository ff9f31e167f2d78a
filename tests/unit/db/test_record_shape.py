"""The record that a publisher makes of a row: byte for byte what Debezium's chain gave for the same row.

`debezium_records.json` was taken from Debezium 3.6.1 with the documented transforms on Postgres 15; the
columns hold the text that Postgres wrote for the same rows (type 16999 stands for an enum).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from db.column_values import parse_array, reader
from db.pgoutput import Column
from db.publisher import EventRecord, Origin, RowShape, UnfitRelation, partition_key

GOLDEN = json.loads((Path(__file__).parent / "debezium_records.json").read_text(encoding="utf-8"))

ORGANIZATION = "11111111-1111-4111-8111-111111111111"
EVENT = "00000000-0000-4000-8000-000000000001"
CONTACT = "22222222-2222-4222-8222-22222222222a"


def shape_and_values(golden: dict[str, Any]) -> tuple[RowShape, list[bytes | None]]:
    columns = [Column(name, oid, typmod) for name, oid, typmod, _ in golden["columns"]]
    return RowShape(columns), [None if text is None else text.encode() for *_, text in golden["columns"]]


def record_of(golden: dict[str, Any]) -> EventRecord:
    shape, values = shape_and_values(golden)
    headers = dict(golden["headers"])
    origin = Origin(int(headers["cdc_source_lsn"]), int(headers["cdc_source_ts_ms"]))
    return shape.record(values, origin)


@pytest.mark.parametrize("golden", GOLDEN, ids=[g["columns"][0][3][-1] for g in GOLDEN])
def test_key_value_and_headers_are_those_of_debezium(golden: dict[str, Any]) -> None:
    record = record_of(golden)
    assert record.key.decode() == golden["key"]
    assert record.value.decode() == golden["value"]
    assert [(name, value.decode()) for name, value in record.headers] == [tuple(h) for h in golden["headers"]]
    assert record.event_type == "ai_agent.dispatch_requested"
    assert record.event_id == golden["columns"][0][3]


def test_a_row_without_a_key_gets_the_one_that_the_trigger_would_give() -> None:
    golden = json.loads(json.dumps(GOLDEN[0]))
    for column in golden["columns"]:
        if column[0] == "partition_key":
            column[3] = None
    assert record_of(golden).key.decode() == golden["key"]


def test_only_pending_rows_of_published_types_pass() -> None:
    shape, values = shape_and_values(GOLDEN[0])
    names = [column[0] for column in GOLDEN[0]["columns"]]

    def passes(name: str, text: bytes | None) -> bool:
        changed = list(values)
        changed[names.index(name)] = text
        return shape.is_published(changed)

    assert shape.is_published(values)
    assert passes("event_type", b"group_link.dispatch_requested")
    assert not passes("event_type", b"message.received")
    assert not passes("event_type", None)
    assert not passes("status", b"done")
    assert not passes("status", b"processing")


def test_a_read_row_says_so() -> None:
    shape, values = shape_and_values(GOLDEN[0])
    assert dict(shape.record(values, Origin(0, 5, "r")).headers)["cdc_op"] == b"r"


def test_bytes_that_are_no_utf8_stop_nobody() -> None:
    shape, values = shape_and_values(GOLDEN[0])
    at = [column[0] for column in GOLDEN[0]["columns"]].index("last_error")
    values[at] = b"caf\xe9"
    assert json.loads(shape.record(values, Origin(1, 2)).value)["last_error"] == "caf�"


def test_a_column_list_in_the_publication_is_refused_with_the_way_out() -> None:
    with pytest.raises(UnfitRelation, match=r"organization_id.*column list"):
        RowShape(
            [Column("id", 2950), Column("event_type", 25), Column("status", 25), Column("payload", 3802)]
        )


@pytest.mark.parametrize(
    ("event_type", "payload", "last"),
    [
        ("ai_agent.dispatch_requested", f'{{"contact_id": "{CONTACT}"}}', CONTACT),
        ("ai_agent.dispatch_requested", f'{{"contact_id": "{CONTACT.upper()}"}}', CONTACT),
        ("ai_agent.other", f'{{"contact_id": "{CONTACT}"}}', CONTACT),
        ("ai_agent.dispatch_requested", '{"contact_id": "abc"}', EVENT),
        ("ai_agent.dispatch_requested", '{"contact_id": 7}', EVENT),
        ("ai_agent.dispatch_requested", '{"contact_id": null}', EVENT),
        ("ai_agent.dispatch_requested", f'{{"contact_id": " {CONTACT}"}}', EVENT),
        ("ai_agent.dispatch_requested", f'{{"contact_id": "{CONTACT}\\n"}}', EVENT),
        ("ai_agent.dispatch_requested", "{}", EVENT),
        ("ai_agent.dispatch_requested", "[]", EVENT),
        ("ai_agent.dispatch_requested", '"text"', EVENT),
        ("ai_agent.dispatch_requested", "null", EVENT),
        ("ai_agent.dispatch_requested", None, EVENT),
        ("ai_agent.dispatch_requested", f'{{"contact_id": "{CONTACT}", "n": 1e999}}', CONTACT),
        ("group_link.dispatch_requested", '{"phone": "+5511988887777"}', "+5511988887777"),
        ("group_link.dispatch_requested", '{"phone": "5511988887777"}', EVENT),
        ("group_link.dispatch_requested", '{"phone": "+0511988887777"}', EVENT),
        ("group_link.dispatch_requested", '{"phone": "+55 11 98888-7777"}', EVENT),
        ("group_link.dispatch_requested", f'{{"contact_id": "{CONTACT}"}}', EVENT),
        ("message.received", f'{{"contact_id": "{CONTACT}"}}', EVENT),
    ],
)
def test_partition_key(event_type: str, payload: str | None, last: str) -> None:
    assert partition_key(ORGANIZATION, event_type, EVENT.upper(), payload) == f"{ORGANIZATION}:{last}"


def test_a_key_without_an_organization_is_still_a_key() -> None:
    assert partition_key(None, "x", EVENT, "{}") == f":{EVENT}"


@pytest.mark.thorough
@given(st.uuids(), st.uuids())
def test_partition_key_is_canonical_whatever_the_case(organization: UUID, contact: UUID) -> None:
    payload = json.dumps({"contact_id": str(contact).upper()})
    key = partition_key(str(organization).upper(), "ai_agent.x", EVENT, payload)
    assert key == f"{organization}:{contact}"


@pytest.mark.parametrize(
    ("oid", "typmod", "text", "value"),
    [
        (1184, -1, "2024-01-02 03:04:05+00", "2024-01-02T03:04:05.000000Z"),
        (1184, 0, "2024-01-02 03:04:05+00", "2024-01-02T03:04:05Z"),
        (1184, 3, "2024-01-02 03:04:05.5+00", "2024-01-02T03:04:05.500Z"),
        (1184, -1, "infinity", "infinity"),
        (1184, -1, "0044-03-15 00:00:00+00 BC", "0044-03-15 00:00:00+00 BC"),
        (1114, -1, "infinity", "infinity"),
        (1082, -1, "1969-12-31", -1),
        (1082, -1, "infinity", "infinity"),
        (16, -1, "f", False),
        (23, -1, "-7", -7),
        (1700, -1, "1.50", "1.50"),
        (701, -1, "-Infinity", "-Infinity"),
        (1009, -1, "{}", []),
        (1009, -1, '{{a,"b,{}"},{NULL,"nu\\\\ll"}}', [["a", "b,{}"], [None, "nu\\ll"]]),
        (1007, -1, "[0:1]={1,2}", [1, 2]),
        (4711, -1, "anything", "anything"),
    ],
)
def test_column_values(oid: int, typmod: int, text: str, value: object) -> None:
    assert reader(oid, typmod)(text) == value


@pytest.mark.thorough
@given(st.lists(st.one_of(st.none(), st.text())))
def test_text_arrays_come_back(items: list[str | None]) -> None:
    def quoted(item: str | None) -> str:
        if item is None:
            return "NULL"
        return '"' + item.replace("\\", "\\\\").replace('"', '\\"') + '"'

    assert parse_array("{" + ",".join(map(quoted, items)) + "}") == items


@pytest.mark.parametrize("text", ["", "a", "{", '{"', '{"\\', "{a", "{a}b", "x{a}"])
def test_broken_arrays_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"array|element"):
        parse_array(text)
