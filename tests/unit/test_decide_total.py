"""Whatever the facts are: one decision, made by the first stop, and nothing raised."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.decide import Emptied, Enqueue, decide
from streams.eligibility import EligibilityFacts, veto
from streams.followup import FollowupFacts, armed_pointers, read_flow
from streams.question import AskedEvent, Facts, Question, Rules, Unreadable
from tests.unit.asking import FINE, NOW_MS, RULES
from tests.unit.test_decide_stops import named

WORDS = [
    "allowlist",
    "pre_go_live",
    "active",
    "external",
    "user",
    "inbound_after_silence",
    "trigger",
    "wait",
    "smart",
    "+5511987654321",
]
GATE_KEYS = ["disabled", "ai_gate", "ai_gate_mode", "ai_test_phone_numbers", "enabled", "flow_pointer_ids"]
FLOW_KEYS = [
    "kind",
    "params",
    "threshold_minutes",
    "segments",
    "nodes",
    "edges",
    "id",
    "type",
    "config",
    "mode",
]
ODD = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(WORDS),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(GATE_KEYS) | st.sampled_from(FLOW_KEYS), inner, max_size=6)
    ),
    max_leaves=12,
)
TIME = st.none() | st.floats() | st.sampled_from([float(NOW_MS - 1_000), float(NOW_MS - 130_000)])
SOME = st.none() | st.sampled_from(["active", "external", "user", "a", "b", "c"])
FLOWS = st.builds(read_flow, SOME.map(str), ODD, ODD, st.just(frozenset({"a"}))).map(
    lambda flow: () if flow is None else (flow,)
)
FOLLOWUPS = st.builds(Unreadable, st.just("x")) | st.builds(
    FollowupFacts,
    flows=FLOWS,
    conversation_and_contact_found=st.booleans(),
    is_group=st.booleans(),
    is_blocked=st.booleans(),
    force_human=st.booleans(),
    silenced=st.booleans(),
    assignee_kind=SOME,
    tags=st.frozensets(st.sampled_from(["a", "b"])),
    enrolled_by_window=st.booleans(),
    live_enrollment=st.booleans(),
    live_return_since=st.booleans(),
    gap_ms=TIME,
)
ELIGIBILITIES = (
    st.none()
    | st.builds(Unreadable, st.just("x"))
    | st.builds(
        EligibilityFacts,
        now_ms=st.just(float(NOW_MS)),
        channel_metadata=ODD,
        force_human=st.booleans(),
        silenced=st.booleans(),
        assignee_kind=SOME,
        phone_number=SOME,
        authorized_ms=TIME,
    )
)
NAMES = st.sampled_from(["a", "b", "c"])
FACTS = st.builds(
    Facts,
    db_now_ms=st.just(float(NOW_MS)),
    organization_status=st.just("active") | SOME,
    dispatch_mode=SOME,
    conversation_found=st.booleans(),
    is_group=st.just(False) | st.none() | st.booleans(),
    agent_can_execute=st.booleans(),
    assisted=st.booleans(),
    latest_message_id=st.none() | NAMES,
    unread_media_created_ms=TIME,
    contact_found=st.booleans(),
    known=st.dictionaries(NAMES, st.none() | NAMES, max_size=3),
    followup=FOLLOWUPS,
    eligibility=ELIGIBILITIES,
)
EVENTS = st.lists(
    st.builds(AskedEvent, NAMES, NAMES, st.integers(0, 2 * NOW_MS)), min_size=1, max_size=4
).map(tuple)
QUESTIONS = st.builds(
    Question,
    organization_id=NAMES,
    conversation_id=NAMES,
    contact_id=NAMES,
    channel_session_id=NAMES,
    events=EVENTS,
    now_ms=st.just(NOW_MS),
    deadline_ms=st.integers(NOW_MS - 200_000, NOW_MS + 200_000),
    superseded_since_ms=st.none() | st.integers(0, 2 * NOW_MS),
    again=st.booleans(),
)
ALL_RULES = st.builds(
    Rules,
    allowlist_ttl_days=st.floats(0.001, 10_000),
    media_recheck_ms=st.integers(50, 10**6),
    event_max_age_s=st.none() | st.floats(0.001, 10**9),
)


@pytest.mark.thorough
@settings(max_examples=100, deadline=None)
@given(QUESTIONS, FACTS, ALL_RULES)
def test_every_state_gives_one_decision_on_the_events_that_are_left(
    question: Question, facts: Facts, rules: Rules
) -> None:
    decision = decide(question, facts, rules)
    left = [
        event.event_id for event in question.events if question.again or event.event_id not in facts.known
    ]
    gone = [event_id for event_id, _ in decision.deduplicated]
    assert len(left) + len(gone) == len(question.events)
    assert isinstance(decision, Emptied) == (not left)
    if isinstance(decision, Enqueue):
        assert decision.answers in left
    assert decide(question, facts, rules) == decision


PARTS = (
    ("organization_status",),
    ("dispatch_mode",),
    ("conversation_found", "is_group"),
    ("agent_can_execute",),
    ("latest_message_id",),
    ("followup",),
    ("eligibility", "assisted"),
    ("unread_media_created_ms",),
    ("contact_found",),
)
ASKED = [
    "org_not_operating", "org_external_dispatch", "group_or_missing_conversation", "no_published_agent",
    "superseded_by_newer_inbound", "yielded_to_followup", "not_eligible", "media_pending", "contact_missing",
]  # fmt: skip


@pytest.mark.thorough
@settings(max_examples=100, deadline=None)
@given(QUESTIONS, FACTS)
def test_the_first_stop_wins_whatever_comes_after_it(question: Question, facts: Facts) -> None:
    """What later stops look at may change at will; and mended, the part that stopped stops no more."""
    question = replace(question, again=False, superseded_since_ms=None)
    facts = replace(facts, known={})
    decided = named(decide(question, facts, RULES))
    if decided == "Enqueue":
        return
    place = ASKED.index(decided.partition(":")[0])
    later: dict[str, Any] = {name: getattr(FINE, name) for names in PARTS[place + 1 :] for name in names}
    assert named(decide(question, replace(facts, **later), RULES)) == decided
    fine = replace(FINE, latest_message_id=question.events[-1].message_id)
    mended: dict[str, Any] = {name: getattr(fine, name) for name in PARTS[place]}
    again = named(decide(question, replace(facts, **mended), RULES))
    assert again == "Enqueue" or ASKED.index(again.partition(":")[0]) > place


@pytest.mark.thorough
@settings(max_examples=100, deadline=None)
@given(ODD, ODD, st.lists(ODD, max_size=3))
def test_no_stored_json_makes_a_rule_raise(one: object, other: object, more: list[object]) -> None:
    flow = read_flow("a", one, other, armed_pointers(more))
    assert flow is None or flow.threshold_ms >= 3_600_000
    facts = EligibilityFacts(0.0, one, False, False, None, None, None)
    assert veto(facts, 21.0) in (None, "channel_disabled", "not_on_test_list", "not_authorized")
