"""Stop 7, by behaviour."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from streams.eligibility import Veto, on_test_list, phone_variants, veto
from tests.unit.asking import DAY_MS, ELIGIBLE, NOW_MS

TTL = 21.0
LISTED = {"ai_gate": "allowlist", "ai_gate_mode": "pre_go_live", "ai_test_phone_numbers": ["+5511987654321"]}


def test_b051_the_order_of_vetoes() -> None:
    everything = replace(
        ELIGIBLE,
        channel_metadata={"disabled": True, "ai_gate": "allowlist"},
        force_human=True,
        silenced=True,
        assignee_kind="user",
        authorized_ms=None,
    )
    lifted: list[tuple[Veto, dict[str, object]]] = [
        ("channel_disabled", {"channel_metadata": {"ai_gate": "allowlist"}}),
        ("force_human", {"force_human": False}),
        ("conversation_silenced", {"silenced": False}),
        ("human_owner", {"assignee_kind": None}),
        ("not_authorized", {"authorized_ms": NOW_MS - 22.0 * DAY_MS}),
        ("authorization_expired", {"authorized_ms": NOW_MS - 1.0 * DAY_MS}),
    ]
    for why, change in lifted:
        assert veto(everything, TTL) == why
        everything = replace(everything, **change)  # type: ignore[arg-type]  # fields by name, from a table
    assert veto(everything, TTL) is None


@pytest.mark.parametrize("disabled", ["true", 1, 1.0, None, [], {}, False])
def test_b052_only_the_boolean_disables(disabled: object) -> None:
    assert veto(replace(ELIGIBLE, channel_metadata={"disabled": disabled}), TTL) is None


def test_b052_disabled_stops_even_with_an_open_gate() -> None:
    assert veto(replace(ELIGIBLE, channel_metadata={"disabled": True}), TTL) == "channel_disabled"


@pytest.mark.parametrize("metadata", [{}, {"ai_gate": "allowlist"}, LISTED])
def test_b053_b065_force_human_stops_in_every_mode(metadata: object) -> None:
    assert veto(replace(ELIGIBLE, channel_metadata=metadata, force_human=True), TTL) == "force_human"


@pytest.mark.parametrize(
    ("assignee", "why"), [("user", "human_owner"), ("ai", None), (None, None), ("User", None)]
)
def test_b055_a_human_owner(assignee: str | None, why: str | None) -> None:
    assert veto(replace(ELIGIBLE, assignee_kind=assignee), TTL) == why


@pytest.mark.parametrize("gate", [None, "open", "x", "ALLOWLIST", 7, ["allowlist"], {"allowlist": 1}, True])
def test_b056_every_other_gate_is_open(gate: object) -> None:
    assert veto(replace(ELIGIBLE, channel_metadata={"ai_gate": gate}), TTL) is None


@pytest.mark.parametrize("metadata", [None, "allowlist", 7, ["allowlist"], True, math.inf])
def test_b056_metadata_that_is_no_object_is_an_open_gate(metadata: object) -> None:
    assert veto(replace(ELIGIBLE, channel_metadata=metadata), TTL) is None


@pytest.mark.parametrize(
    ("age_ms", "why"),
    [
        (None, "not_authorized"),
        (21 * DAY_MS, None),
        (21 * DAY_MS + 1, "authorization_expired"),
        (3 * DAY_MS, None),
        (-5 * DAY_MS, None),
        (math.inf, "not_authorized"),
        (-math.inf, "not_authorized"),
        (math.nan, "not_authorized"),
    ],
)
def test_b057_to_b060_authorization(age_ms: float | None, why: str | None) -> None:
    authorized_ms = None if age_ms is None else NOW_MS - age_ms
    facts = replace(ELIGIBLE, channel_metadata={"ai_gate": "allowlist"}, authorized_ms=authorized_ms)
    assert veto(facts, TTL) == why


def test_b061_the_time_to_live_is_a_setting() -> None:
    facts = replace(ELIGIBLE, channel_metadata={"ai_gate": "allowlist"}, authorized_ms=NOW_MS - 8.0 * DAY_MS)
    assert veto(facts, 7.0) == "authorization_expired"
    assert veto(facts, 8.0) is None


@pytest.mark.parametrize("phone", ["+5511987654321", "+551187654321", "5511987654321", "+55 (11) 98765-4321"])
def test_b062_on_the_list_without_authorization(phone: str) -> None:
    assert veto(replace(ELIGIBLE, channel_metadata=LISTED, phone_number=phone), TTL) is None


@pytest.mark.parametrize("phone", [None, "", "+5511987654322", "11987654321", "@ana", "+5511887654321"])
def test_b063_b064_the_list_is_the_only_permission(phone: str | None) -> None:
    facts = replace(ELIGIBLE, channel_metadata=LISTED, phone_number=phone, authorized_ms=float(NOW_MS))
    assert veto(facts, TTL) == "not_on_test_list"


def test_b066_the_marker_without_the_allowlist_is_open() -> None:
    assert veto(replace(ELIGIBLE, channel_metadata={**LISTED, "ai_gate": "open"}), TTL) is None


@pytest.mark.parametrize(
    "odd", [None, "+5511987654321", 7, {}, [None, 5511987654321, ["+5511987654321"]], []]
)
def test_an_odd_test_list_is_empty(odd: object) -> None:
    assert not on_test_list("+5511987654321", odd)


def test_ninth_digit_variants() -> None:
    assert phone_variants("+5585987654321") == {"5585987654321", "558587654321"}
    assert phone_variants("+558587654321") == {"5585987654321", "558587654321"}
    assert phone_variants("+5585887654321") == {"5585887654321"}  # its fifth digit is no 9
    assert phone_variants("+351912345678") == {"351912345678"}
    for nothing in (None, "", "+", "abc", "@12345678", 5585987654321, "+1234567", "1" * 16, "+٣٤٥٦٧٨٩٠١٢"):
        assert phone_variants(nothing) == frozenset()
