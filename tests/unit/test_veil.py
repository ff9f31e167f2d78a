"""What is shown of a record holds nobody's name, number or words."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.veil import veiled, veiled_header, veiled_key
from tests.unit.builders import row, uid

PRIVATE = "Ana Souza, +55 11 91234-5678"


def test_ids_states_and_times_stay() -> None:
    shown = veiled({**row("e1"), "created_at": "2026-07-24T12:00:00Z", "run_after_ms": 1_790_000_000_000})
    assert shown == {
        "id": uid("e1"),
        "organization_id": uid("clinic"),
        "event_type": "ai_agent.dispatch_requested",
        "payload": {
            "conversation_id": uid("c1"),
            "contact_id": uid("ana"),
            "channel_session_id": uid("session"),
            "inbound_message_id": uid("message of e1"),
        },
        "metadata": {},
        "attempts": 0,
        "status": "pending",
        "created_at": "2026-07-24T12:00:00Z",
        "run_after_ms": 1_790_000_000_000,
    }


def test_words_names_and_numbers_do_not() -> None:
    payload = json.dumps({"text": PRIVATE, "phone": "+5511912345678", "n": 5511912345678, "is": True})
    shown = json.dumps(veiled({"payload": payload, "note": PRIVATE, "last_error": PRIVATE}))
    assert "Ana" not in json.dumps(veiled({"payload": payload, "note": PRIVATE}))
    assert "91234" not in shown and "5511912345678" not in shown
    assert json.loads(shown)["payload"]["is"] is True


def test_a_key_keeps_who_and_hides_the_phone() -> None:
    assert veiled_key(f"{uid('clinic')}:{uid('ana')}".encode()) == f"{uid('clinic')}:{uid('ana')}"
    assert veiled_key(f"{uid('clinic')}:+5511912345678".encode()) == f"{uid('clinic')}:‹14 characters›"
    assert veiled_key(b"\xff\xfe") == "‹2 characters›" and veiled_key(None) is None


def test_headers_of_others_are_veiled() -> None:
    assert veiled_header(("reason", b"not_json")) == "not_json"
    assert veiled_header(("event_id", uid("e1").encode())) == uid("e1")
    assert veiled_header(("x-phone", b"5511912345678")) == "‹13 bytes›"
    assert veiled_header(("x-name", b"Ana")) == "‹3 bytes›"
    assert veiled_header(("first-failed-at", b"1796046006815")) == "1796046006815", "a time, no phone"
    assert veiled_header(("kafka_dlt-original-timestamp", b"1796046006815")) == "1796046006815"
    assert veiled_header(("due-at", b"+55 11 91234-5678")) == "***"
    assert veiled_header(("kafka_dlt-exception-message", b"call +55 11 91234-5678")) == "call ***"


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(allow_nan=False), st.integers(), st.text(), st.binary()),
    lambda inner: st.one_of(st.lists(inner), st.dictionaries(st.text(), inner)),
    max_leaves=10,
)


@pytest.mark.thorough
@given(values, st.sampled_from(["", "payload", "status", "id", "last_error"]))
def test_anything_can_be_shown(value: object, name: str) -> None:
    json.dumps(veiled(value, name))


@given(st.text(min_size=4, alphabet="абвгдежз"))
def test_a_text_in_a_field_that_nobody_knows_never_shows(words: str) -> None:
    assert words not in str(veiled({"whatever": [words, {"deep": words}]}).get("whatever"))  # type: ignore[attr-defined]
