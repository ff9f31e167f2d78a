"""Stop 6: would a return follow-up enroll this message, so that the AI must keep quiet (pure).

A follow-up flow of the kind `inbound_after_silence` greets a customer who writes again after a long
silence. If one is armed and takes this window's message, it is the one voice that answers. Whenever that
can't be said for sure the AI goes on: two voices now and then are better than none (fail-open).

Rules: spec/dispatch.md, step 4, stop 6; behaviours b137 to b155. Where we differ: a silence until infinity
counts as silenced, so no flow will enroll (b146).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

KIND: Final = "inbound_after_silence"
MINUTE_MS: Final = 60_000
LEAST_THRESHOLD_MINUTES: Final = 60
LONGEST_THRESHOLD_MINUTES: Final = 90 * 24 * 60


@dataclass(frozen=True, slots=True)
class Flow:
    """An active return flow whose trigger is readable."""

    pointer_id: str
    threshold_ms: int
    """The gap to the contact's previous message from which it enrolls, inclusive (b140)."""
    segments: frozenset[str]
    """It enrolls contacts with one of these tags; empty: everybody (b144)."""
    enrolls: bool
    """Its graph is readable (b151), and an agent arms it if it calls a model (b142): it takes contacts."""


@dataclass(frozen=True, slots=True)
class FollowupFacts:
    """What stop 6 looks at: the organization's return flows, and the contact of the payload."""

    flows: tuple[Flow, ...]
    conversation_and_contact_found: bool
    is_group: bool
    is_blocked: bool
    force_human: bool
    silenced: bool
    """`bot_silenced_until` lies ahead; infinity does (b146: we differ)."""
    assignee_kind: str | None
    tags: frozenset[str]
    enrolled_by_window: bool
    """An enrollment event names a message of this window (b149)."""
    live_enrollment: bool
    """The contact has an enrollment that has not ended (b147)."""
    live_return_since: bool
    """One of those is of a return flow and started when or after a message of this window came (b150)."""
    gap_ms: float | None
    """From the contact's previous message, in any conversation (b152), to the window's newest; None: that
    is the first ever (b139)."""


def yields(facts: FollowupFacts) -> bool:
    """Whether a return flow answers this window instead of the AI.

    What was enrolled may be any message of the window: after a long silence that is the burst's first,
    while the window is decided after its last. What would still be enrolled is judged by the newest.
    """
    if not facts.flows or not facts.conversation_and_contact_found:
        return False
    if facts.is_group or facts.is_blocked or facts.force_human:
        return False
    if facts.silenced or facts.assignee_kind == "user":
        return False
    if facts.enrolled_by_window or facts.live_return_since:
        return True
    if facts.live_enrollment or facts.gap_ms is None:
        return False
    gap_ms = facts.gap_ms
    return any(
        flow.enrolls
        and gap_ms >= flow.threshold_ms
        and (not flow.segments or not flow.segments.isdisjoint(facts.tags))
        for flow in facts.flows
    )


def read_flow(pointer_id: str, trigger: object, graph: object, armed: frozenset[str]) -> Flow | None:
    """The flow of an active pointer; None where its trigger is not that of a return flow (b141).

    Args:
        pointer_id: id of the pointer, which is active and has an active version.
        trigger: its `trigger_config`, decoded JSON.
        graph: the graph of its active version, decoded JSON.
        armed: ids of the pointers that some published agent arms; a flow that calls a model needs one.
    """
    if not isinstance(trigger, dict) or trigger.get("kind") != KIND:
        return None
    params = trigger.get("params")
    if not isinstance(params, dict):
        return None
    threshold = _threshold_minutes(params.get("threshold_minutes"))
    segments = _texts(params.get("segments", []))
    if threshold is None or segments is None:
        return None
    calls_model = _calls_model(graph)
    enrolls = calls_model is False or (calls_model is True and pointer_id in armed)
    return Flow(pointer_id, threshold * MINUTE_MS, segments, enrolls)


def armed_pointers(agents_followups: Iterable[object]) -> frozenset[str]:
    """Ids of the pointers that published agents arm: `followup` of each agent's version, decoded JSON."""
    armed: set[str] = set()
    for followup in agents_followups:
        if not isinstance(followup, dict) or followup.get("enabled") is not True:
            continue
        pointers = followup.get("flow_pointer_ids")
        if isinstance(pointers, list):
            armed.update(pointer.lower() for pointer in pointers if isinstance(pointer, str))
    return frozenset(armed)


def _threshold_minutes(value: object) -> int | None:
    """Whole minutes from an hour to 90 days, else None (b141)."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    if not LEAST_THRESHOLD_MINUTES <= value <= LONGEST_THRESHOLD_MINUTES or value != int(value):
        return None
    return int(value)


def _texts(value: object) -> frozenset[str] | None:
    """The texts of a JSON list; None when it is no list of texts."""
    if not isinstance(value, list):
        return None
    texts = frozenset(item for item in value if isinstance(item, str))
    return texts if all(isinstance(item, str) for item in value) else None


def _calls_model(graph: object) -> bool | None:
    """Whether a flow calls a model; None when its graph is unreadable or has no trigger node (b151)."""
    if not isinstance(graph, dict) or not isinstance(graph.get("edges"), list):
        return None
    nodes = graph.get("nodes")
    if not isinstance(nodes, list):
        return None
    triggered = calls_model = False
    for node in nodes:
        if not isinstance(node, dict):
            return None
        kind, config = node.get("type"), node.get("config", {})
        if not isinstance(node.get("id"), str) or not isinstance(kind, str) or not isinstance(config, dict):
            return None
        triggered = triggered or kind == "trigger"
        calls_model = calls_model or _node_calls_model(kind, config.get("mode"))
    return calls_model if triggered else None


def _node_calls_model(kind: str, mode: object) -> bool:
    """A classifying node, a smart wait, or a message that a model writes (b142)."""
    return (
        "classify" in kind
        or (kind == "wait" and mode == "smart")
        or (kind == "action" and mode == "ai_message")
    )
