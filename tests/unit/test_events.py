"""Bytes of the source topic become an event, an invalid payload, or a dead letter with a reason."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import encode_event
from streams.events import Event, InvalidPayload, Unreadable, read_event
from tests.unit.builders import row, row_bytes, uid

NOW = 1_700_000_000_000


def read(
    value: bytes | None, headers: list[tuple[str, bytes | None]] | None = None, timestamp: int = NOW - 50
):
    return read_event(value, headers or [], timestamp, NOW, 7)


def test_a_row_from_the_publisher_is_an_event() -> None:
    found = read(row_bytes(), [("cdc_op", b"c"), ("cdc_source_ts_ms", str(NOW - 900).encode())])
    assert isinstance(found, Event)
    assert found.event_id == uid("e1")
    assert found.key == f"{uid('clinic')}:{uid('ana')}".encode()
    assert (found.time_ms, found.offset, found.replay) == (NOW - 900, 7, 0)


def test_without_commit_time_kafkas_timestamp_counts() -> None:
    found = read(row_bytes())
    assert isinstance(found, Event) and found.time_ms == NOW - 50


@pytest.mark.parametrize("commit", [b"9999999999999", b"", b"abc", b"-5", None])
def test_an_event_is_never_later_than_its_arrival(commit: bytes | None) -> None:
    found = read(row_bytes(), [("cdc_source_ts_ms", commit)])
    assert isinstance(found, Event) and found.time_ms <= NOW


def test_the_same_row_in_avro_is_the_same_event() -> None:
    assert read(encode_event(row())) == read(row_bytes())


def test_payload_as_an_object_is_accepted_from_people() -> None:
    plain = row()
    plain["payload"] = json.loads(str(plain["payload"]))
    assert read(json.dumps(plain).encode()) == read(row_bytes())


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (None, "null_value"),
        (b"", "not_json"),
        (b"\xff\xfe\x00", "not_json"),
        (b"hello", "not_json"),
        (b"[]", "not_an_event"),
        (b"{}", "not_an_event"),
        (row_bytes(id="nope"), "not_an_event"),
        (row_bytes(organization_id=None), "not_an_event"),
        (row_bytes(event_type="message.created"), "wrong_event_type"),
        (b"\xc3\x01" + b"\x00" * 8 + b"body", "unknown_schema"),
        (b"\x00\x00\x00\x00\x07" + b"body", "unknown_schema"),
        (b"\x00\x00\x00", "not_json"),
        (encode_event(row())[:20], "bad_avro"),
        (b'{"a":' * 100_000, "not_json"),
    ],
)
def test_what_is_no_event_is_told_by_a_reason(value: bytes | None, reason: str) -> None:
    found = read(value)
    assert isinstance(found, Unreadable)
    assert found.reason == reason
    assert found.message


# b003, b004, b007: payloads outside the contract
@pytest.mark.parametrize(
    "payload",
    [
        "[]",
        "null",
        "not json",
        None,
        5,
        "{}",
        json.dumps({"conversation_id": "abc"}),
        json.dumps({**json.loads(str(row()["payload"])), "contact_id": None}),
        json.dumps(
            {**json.loads(str(row()["payload"])), "contact_id": "11111111-1111-0111-8111-111111111111"}
        ),
    ],
)
def test_a_payload_outside_the_contract_is_invalid(payload: object) -> None:
    found = read(row_bytes(payload=payload))
    assert isinstance(found, InvalidPayload)
    assert found.event_id == uid("e1")


def test_extra_keys_are_ignored_and_upper_case_is_the_same_id() -> None:  # b005, b008
    payload = {k: v.upper() for k, v in json.loads(str(row()["payload"])).items()} | {"extra": [1]}
    assert read(row_bytes(payload=json.dumps(payload))) == read(row_bytes())


def test_the_organization_is_the_rows_never_the_payloads() -> None:  # b006
    payload = json.loads(str(row()["payload"])) | {"organization_id": uid("other")}
    found = read(row_bytes(payload=json.dumps(payload)))
    assert isinstance(found, Event) and found.organization_id == uid("clinic")


@pytest.mark.parametrize("attempts", [2**31 - 1, 2**63 - 1, 10**30, -5, "7", 1.5, True, None])
def test_an_odd_count_of_attempts_is_bounded_and_can_be_sent(attempts: object) -> None:
    found = read(row_bytes(attempts=attempts))
    assert isinstance(found, Event)
    assert 0 <= found.attempts <= 1_000


def test_replay_and_again_travel_in_headers() -> None:
    found = read(row_bytes(), [("replay", b"1764000000000"), ("again", b"1")])
    assert isinstance(found, Event) and found.replay == 1_764_000_000_000 and found.again


@given(st.one_of(st.binary(max_size=200), st.binary(max_size=60).map(lambda body: b"\xc3\x01" + body)))
def test_no_bytes_make_it_raise(value: bytes) -> None:
    assert isinstance(read(value), Event | InvalidPayload | Unreadable)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.thorough
@given(st.sampled_from([*row(), "unknown"]), json_values)
def test_no_json_makes_it_raise(column: str, value: object) -> None:
    assert isinstance(
        read(json.dumps({**row(), column: value}).encode()), Event | InvalidPayload | Unreadable
    )


@pytest.mark.parametrize("depth", [900, 2_000, 5_000])
@pytest.mark.parametrize("as_text", [True, False])
def test_a_payload_may_hold_anything_beside_the_four_ids_however_deep(depth: int, as_text: bool) -> None:
    deep = '{"n": [' * (depth // 2) + "1" + "]}" * (depth // 2)
    ids = str(row()["payload"]).rstrip("}")
    payload = f'{ids}, "raw": {deep}}}'
    written = json.dumps({**row(), "payload": "@"})
    value = written.replace('"@"', json.dumps(payload) if as_text else payload).encode()
    assert read(value) == read(json.dumps(row()).encode())


@pytest.mark.parametrize("as_text", [True, False])
def test_a_deep_payload_without_the_ids_is_invalid_and_says_which(as_text: bool) -> None:
    payload = '{"contact_id": ' + "[" * 5_000 + "]" * 5_000 + "}"
    value = json.dumps({**row(), "payload": "@"}).replace('"@"', json.dumps(payload) if as_text else payload)
    found = read(value.encode())
    assert isinstance(found, InvalidPayload) and found.what.startswith(
        "not a uuid: conversation_id, contact_id"
    )


def test_deep_text_that_is_no_json_is_a_dead_letter() -> None:
    found = read(b'{"id": ' + b"[" * 5_000)
    assert isinstance(found, Unreadable) and found.reason == "not_json"
