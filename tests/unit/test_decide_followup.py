"""Stop 6, by behaviour."""

from __future__ import annotations

from dataclasses import replace

import pytest

from streams.followup import Flow, armed_pointers, read_flow, yields
from tests.unit.asking import DAY_MS, FLOW, NO_FLOW, RETURNING

TRIGGER = {"kind": "inbound_after_silence", "params": {"threshold_minutes": 1440}}
TEXT_FLOW = {
    "nodes": [
        {"id": "t", "type": "trigger", "config": {}},
        {"id": "a", "type": "action", "config": {"mode": "text", "body": "oi"}},
    ],
    "edges": [],
}
NOBODY: frozenset[str] = frozenset()


def graph(*nodes: object) -> object:
    return {"nodes": [{"id": "t", "type": "trigger"}, *nodes], "edges": []}


def enrolls(graph: object, armed: frozenset[str] = NOBODY) -> bool:
    flow = read_flow("pointer", TRIGGER, graph, armed)
    assert flow is not None
    return flow.enrolls


def test_b138_back_after_the_threshold_yields() -> None:
    assert yields(RETURNING)


def test_b137_without_a_flow_no_yield() -> None:
    assert not yields(replace(RETURNING, flows=()))


def test_b139_the_first_message_ever_is_no_return() -> None:
    assert not yields(replace(RETURNING, gap_ms=None))


@pytest.mark.parametrize(
    ("gap_ms", "expected"), [(DAY_MS - 1, False), (DAY_MS, True), (-1, False), (float("nan"), False)]
)
def test_b140_the_threshold_is_inclusive(gap_ms: float, expected: bool) -> None:
    assert yields(replace(RETURNING, gap_ms=gap_ms)) is expected


@pytest.mark.parametrize("minutes", [60, 60.0, 1440, 129_600])
def test_b141_thresholds_that_count(minutes: float) -> None:
    flow = read_flow(
        "p", {"kind": "inbound_after_silence", "params": {"threshold_minutes": minutes}}, TEXT_FLOW, NOBODY
    )
    assert flow == Flow("p", int(minutes) * 60_000, frozenset(), True)


@pytest.mark.parametrize(
    "minutes",
    [59, 129_601, 131_040, 90.5, "1440", "abc", None, True, [], float("nan"), float("inf"), -60, 10**400],
)
def test_b141_thresholds_that_do_not(minutes: object) -> None:
    trigger = {"kind": "inbound_after_silence", "params": {"threshold_minutes": minutes}}
    assert read_flow("p", trigger, TEXT_FLOW, NOBODY) is None


@pytest.mark.parametrize(
    "trigger",
    [None, 7, "inbound_after_silence", [], {}, {"kind": "manual", "params": {"threshold_minutes": 60}},
     {"kind": "inbound_after_silence"}, {"kind": "inbound_after_silence", "params": [60]}],
)  # fmt: skip
def test_other_triggers_are_ignored(trigger: object) -> None:
    assert read_flow("p", trigger, TEXT_FLOW, NOBODY) is None


@pytest.mark.parametrize(
    "node",
    [
        {"id": "c", "type": "ai_classify"},
        {"id": "c", "type": "classify", "config": {}},
        {"id": "w", "type": "wait", "config": {"mode": "smart"}},
        {"id": "a", "type": "action", "config": {"mode": "ai_message", "prompt_hint": "h"}},
    ],
)
def test_b142_b143_a_flow_that_calls_a_model_needs_an_agent_that_arms_it(node: object) -> None:
    assert not enrolls(graph(node))
    assert not enrolls(graph(node), frozenset({"another"}))
    assert enrolls(graph(node), frozenset({"pointer"}))


@pytest.mark.parametrize(
    "node",
    [
        {"id": "w", "type": "wait", "config": {"mode": "fixed"}},
        {"id": "a", "type": "action", "config": {"mode": "text"}},
        {"id": "m", "type": "match_reply"},
        {"id": "a", "type": "action", "config": {"mode": ["ai_message"]}},
    ],
)
def test_b142_other_flows_need_nobody(node: object) -> None:
    assert enrolls(graph(node))


@pytest.mark.parametrize(
    "odd",
    [None, 7, "x", [], {}, {"nodes": [], "edges": []}, {"nodes": [{"id": "z"}], "edges": []},
     {"nodes": [{"id": "t", "type": "trigger"}]}, {"nodes": {"t": 1}, "edges": []},
     {"nodes": [{"id": "t", "type": "trigger"}, "x"], "edges": []},
     {"nodes": [{"id": "t", "type": "trigger", "config": 3}], "edges": []},
     {"nodes": [{"id": 1, "type": "trigger"}], "edges": []},
     {"nodes": [{"id": "a", "type": "action"}], "edges": []}],
)  # fmt: skip
def test_b151_a_graph_that_is_unreadable_or_has_no_trigger_enrolls_nobody(odd: object) -> None:
    assert not enrolls(odd)
    assert not enrolls(odd, frozenset({"pointer"}))
    assert not yields(replace(RETURNING, flows=(replace(FLOW, enrolls=False),)))


@pytest.mark.parametrize(
    ("segments", "tags", "expected"),
    [
        (["vip", "x"], {"vip"}, True),
        (["vip"], {"x"}, False),
        (["vip"], set(), False),
        ([], set(), True),
        (None, set(), True),
    ],
)
def test_b144_segments(segments: list[str] | None, tags: set[str], expected: bool) -> None:
    params: dict[str, object] = {"threshold_minutes": 1440}
    if segments is not None:
        params["segments"] = segments
    flow = read_flow("p", {"kind": "inbound_after_silence", "params": params}, TEXT_FLOW, NOBODY)
    assert flow is not None
    assert yields(replace(RETURNING, flows=(flow,), tags=frozenset(tags))) is expected


@pytest.mark.parametrize("segments", [None, "vip", {"vip": 1}, ["vip", 7], 7])
def test_b144_odd_segments_spoil_the_flow(segments: object) -> None:
    params = {"threshold_minutes": 1440, "segments": segments}
    assert read_flow("p", {"kind": "inbound_after_silence", "params": params}, TEXT_FLOW, NOBODY) is None


def test_b145_b146_who_is_not_enrolled() -> None:
    for facts in (
        replace(RETURNING, is_group=True),
        replace(RETURNING, is_blocked=True),
        replace(RETURNING, force_human=True),
        replace(RETURNING, silenced=True),
        replace(RETURNING, assignee_kind="user"),
        replace(RETURNING, conversation_and_contact_found=False),
    ):
        assert not yields(facts)
        assert not yields(replace(facts, enrolled_by_window=True, live_enrollment=True))


def test_b147_a_live_enrollment_of_another_kind_keeps_the_flow_out() -> None:
    assert not yields(replace(RETURNING, live_enrollment=True))


def test_b149_b150_what_this_window_began_is_the_one_voice() -> None:
    begun = replace(RETURNING, live_enrollment=True, gap_ms=1_000.0)
    assert yields(replace(begun, enrolled_by_window=True))
    assert yields(replace(begun, live_return_since=True))
    assert not yields(begun)
    # without a return flow in the organization nobody is looked at
    assert not yields(replace(NO_FLOW, enrolled_by_window=True, live_return_since=True))


def test_b153_any_flow_that_qualifies_is_enough() -> None:
    slow = replace(FLOW, threshold_ms=10 * DAY_MS)
    assert not yields(replace(RETURNING, flows=(slow,)))
    assert yields(replace(RETURNING, flows=(slow, FLOW)))


def test_armed_pointers() -> None:
    told: list[object] = [
        {"enabled": True, "flow_pointer_ids": ["A", "b", 7, None]},
        {"enabled": False, "flow_pointer_ids": ["c"]},
        {"enabled": "true", "flow_pointer_ids": ["d"]},
        {"enabled": True, "flow_pointer_ids": "e"},
        {"enabled": True},
        None,
        "f",
        ["g"],
    ]
    assert armed_pointers(told) == {"a", "b"}
