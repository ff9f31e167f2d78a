"""The scenarios of decisions.json: their rows, the windows that our system makes of them, and agreement.

The format is described in spec/dispatch.md, "Format of cases/decisions.json". What the reference decided is
compared with what we decide, and where we differ on purpose ("Where we deliberately differ") the part is
left out with its reason, after a check that we really do what that page says.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.alert_texts import title
from streams.decide import Decision, Emptied, Enqueue, Fail, LookAgain, Stop, WaitForMedia
from tests.integration.crm_tables import Row, Tables

Json = dict[str, Any]

DISPATCH = "ai_agent.dispatch_requested"
CONSUMER = "agent-engine"
IN_JOB = frozenset({"enqueued", "coalesced", "superseded_by_newer_inbound"})
LONG_AGO_MS = -30 * 86_400_000


@dataclass(frozen=True)
class Scenario:
    """One database state and what the reference made of it."""

    id: str
    title: str
    knobs: Json
    steps: list[Json]
    rows: dict[str, list[Json]]
    outcome: Json

    @property
    def debounce_ms(self) -> int:
        return int(self.knobs.get("debounce_ms", 8_000))

    @property
    def ttl_days(self) -> float:
        return float(self.knobs.get("allowlist_ttl_ms", 21 * 86_400_000)) / 86_400_000

    def decided(self) -> dict[str, Json]:
        """Event → what the reference made of it."""
        return {event["id"]: event for event in self.outcome["events"]}


def load_scenarios(path: Path) -> list[Scenario]:
    """Every scenario of a file."""
    return [
        Scenario(
            one["id"],
            one["title"],
            one.get("knobs") or {},
            one.get("steps") or [],
            one["rows"],
            one["outcome"],
        )
        for one in json.loads(path.read_text(encoding="utf-8"))
    ]


# -- rows


RENAMED = {
    "org_id": "organization_id",
    "session_id": "channel_session_id",
    "phone": "phone_number",
    "active_agent_id": "active_ai_agent_id",
    "trigger": "trigger_config",
    "bot_silenced_offset_ms": "bot_silenced_until",
    "silenced_offset_ms": "bot_silenced_until",
    "run_after_offset_ms": "run_after",
}
TABLE_OF = {
    "organizations": "organizations",
    "sessions": "channel_sessions",
    "contacts": "contacts",
    "conversations": "conversations",
    "messages": "messages",
    "agents": "ai_agents",
    "versions": "ai_agent_versions",
    "routers": "ai_routers",
    "members": "ai_router_members",
    "flow_pointers": "followup_flow_pointers",
    "flow_versions": "followup_flow_versions",
    "enrollments": "followup_enrollments",
    "enrollment_events": "followup_enrollment_events",
    "events": "event_log",
    "jobs": "job_queue",
    "inbox": "agent_inbox_items",
}
DEFAULTS: dict[str, Row] = {
    "messages": {"direction": "inbound"},
    "event_log": {"event_type": DISPATCH},
    "job_queue": {"kind": "inbound_turn"},
    "agent_inbox_items": {"severity": "critical"},
    # The scenarios don't say when: long before any message, since the reference did not look at it.
    "followup_enrollments": {"started_at": LONG_AGO_MS},
}


def tables_of(scenario: Scenario, base_ms: int) -> Tables:
    """The scenario's rows under our columns' names; times relative to `base_ms`."""
    tables: Tables = {}
    for name, rows in scenario.rows.items():
        table = TABLE_OF[name]
        tables[table] = [_row(table, row, base_ms) for row in rows]
    return tables


def _row(table: str, row: Json, base_ms: int) -> Row:
    made: Row = {}
    for name, value in {**DEFAULTS.get(table, {}), **row}.items():
        if name == "ai_dispatch_mode":
            made["settings"] = {} if value is None else {"ai_dispatch_mode": value}
        elif name in ("archived", "paused"):
            made[f"{name}_at"] = base_ms if value else None
        elif name.endswith("_offset_ms") or name in ("started_at",):
            column = RENAMED.get(
                name, name.removesuffix("_offset_ms") + ("_at" if name.endswith("_ms") else "")
            )
            made[column] = _time(value, base_ms)
        else:
            made[RENAMED.get(name, name)] = value
    return made


def _time(value: object, base_ms: int) -> float | None:
    if value is None:
        return None
    if isinstance(value, str):
        return -math.inf if value.startswith("-") else math.inf
    assert isinstance(value, (int, float))
    return base_ms + value


# -- events that the reference would claim


def claimed(scenario: Scenario, tables: Tables, base_ms: int) -> list[Row]:
    """Events that are due, and orphans of our consumer name, in the order of the log."""
    reap_ms = float(scenario.knobs.get("reap_timeout_ms", 300_000))
    due = [row for row in tables["event_log"] if _is_claimed(row, base_ms, reap_ms)]
    return sorted(due, key=lambda row: float(str(row.get("created_at", base_ms))))


def _is_claimed(row: Row, base_ms: int, reap_ms: float) -> bool:
    if row["event_type"] != DISPATCH:
        return False
    status = row.get("status", "pending")
    if status == "processing":
        consumers, updated = row.get("consumed_by") or [], row.get("updated_at")
        assert isinstance(consumers, list)
        return CONSUMER in consumers and isinstance(updated, (int, float)) and updated < base_ms - reap_ms
    next_attempt = row.get("next_attempt_at")
    due = not isinstance(next_attempt, (int, float)) or next_attempt <= base_ms
    return status == "pending" and due


# -- what differs on purpose


def jobs_that_are_windows(scenario: Scenario) -> dict[str, str]:
    """Event → job of those that rode on an ordinary waiting job, which in our system is an open window."""
    return {
        event: ridden["id"]
        for event, ridden in _ridden(scenario)
        if ridden.get("attempts", 0) == 0
        and isinstance(ridden.get("run_after_offset_ms"), (int, float))
        and ridden.get("source_event_id") != event
    }


def differences(scenario: Scenario) -> dict[str, str]:
    """Event → why we decide otherwise on purpose."""
    found: dict[str, str] = {}
    for event, ridden in _ridden(scenario):
        if ridden.get("attempts", 0):
            found[event] = "rides on a retry; a retry never absorbs here"
        elif isinstance(ridden.get("run_after_offset_ms"), str):
            found[event] = "rides on a job at infinity for ever; never here"
    home = {event["id"]: event["payload"] for event in scenario.rows["events"]}
    for event in scenario.outcome["events"]:
        payload, reference = home[event["id"]], event.get("job_ref") or {}
        if not isinstance(payload, dict):
            continue
        if event["decision"] == "coalesced" and "source_event_id" in reference:
            other = home.get(reference["source_event_id"])
            if isinstance(other, dict) and other["conversation_id"] != payload["conversation_id"]:
                found[event["id"]] = "rides on another conversation's job; windows are per conversation here"
        if any(isinstance(value, str) and value != value.lower() for value in payload.values()):
            found[event["id"]] = "upper-case ids are lost as text; they are compared as UUIDs here"
        if event["decision"] == "yielded_to_followup" and _silenced_for_ever(scenario, payload):
            found[event["id"]] = "yields though silenced until infinity; silenced here"
    return found


def _ridden(scenario: Scenario) -> Iterator[tuple[str, Json]]:
    jobs = {job["id"]: job for job in scenario.rows["jobs"]}
    for event in scenario.outcome["events"]:
        reference = event.get("job_ref") or {}
        if event["decision"] == "coalesced" and "existing" in reference:
            yield event["id"], jobs[reference["existing"]]


def _silenced_for_ever(scenario: Scenario, payload: Json) -> bool:
    return any(
        conversation["id"] == payload.get("conversation_id")
        and conversation.get("bot_silenced_offset_ms") == "infinity"
        for conversation in scenario.rows["conversations"]
    )


# -- agreement


@dataclass(frozen=True)
class Decided:
    """One window: its events in the order of the log, and our decision."""

    events: tuple[str, ...]
    decision: Decision
    answered_message: str | None
    """The message that its job answers."""
    dead: bool = False
    """Its failure was the last that it may have."""

    def label(self, event_id: str) -> str:
        """Our decision on one event, in the reference's words."""
        if event_id in dict(self.decision.deduplicated):
            return "deduplicated"
        match self.decision:
            case Enqueue():
                return "enqueued"
            case Stop(reason=reason):
                return reason
            case WaitForMedia():
                return "media_pending"
            case Fail():
                return "failed_dead" if self.dead else "failed_retry"
            case Emptied() | LookAgain():
                return "undecided"


@dataclass
class Agreement:
    """What agrees, what differs on purpose, what disagrees."""

    agreed: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    disagreements: list[str] = field(default_factory=list)


def compare(scenario: Scenario, windows: list[Decided], invalid: set[str]) -> Agreement:
    """Compare our decisions with the reference's, event by event and job by job."""
    told, agreement = scenario.decided(), Agreement(left_out=differences(scenario))
    ours = {event: window for window in windows for event in window.events}
    for event_id, reference in told.items():
        decision = reference["decision"]
        if event_id in invalid or decision == "invalid_payload":
            label = "invalid_payload" if event_id in invalid else "valid"
            siblings: set[str] = set()
        elif event_id not in ours:
            label, siblings = "not_claimed", set()
        else:
            label = ours[event_id].label(event_id)
            siblings = {told[other]["decision"] for other in ours[event_id].events if other in told}
        wrong = _disagrees(decision, label, siblings, reference, ours.get(event_id))
        if event_id in agreement.left_out:
            wrong = _not_as_meant(decision, label, siblings)
        if wrong:
            agreement.disagreements.append(f"event {event_id}: the reference says {decision}, {wrong}")
        elif event_id not in agreement.left_out:
            agreement.agreed += 1
    agreement.disagreements += _jobs_disagree(scenario, windows, agreement.left_out)
    return agreement


def expected_inbox(scenario: Scenario) -> list[tuple[object, ...]]:
    """Organization, kind, severity, title, status, and whether the text tells what went wrong."""
    return sorted(
        (
            (
                item["org_id"],
                item["kind"],
                item["severity"],
                title("event_dead") if item["title"] == "ai_did_not_answer" else item["title"],
                item["status"],
                item["has_error_text"],
            )
            for item in scenario.outcome["inbox"]
        ),
        key=str,
    )


def _disagrees(
    decision: str, label: str, siblings: set[str], reference: Json, window: Decided | None
) -> str | None:
    if label == "deduplicated":
        job = dict(window.decision.deduplicated) if window else {}
        existing = (reference.get("job_ref") or {}).get("existing")
        same = existing is not None and job.get(reference["id"]) == existing
        return None if decision in ("deduplicated", "coalesced") and same else "we say deduplicated"
    if label == "enqueued":
        return None if decision in IN_JOB and siblings <= IN_JOB else "we make a job"
    # Inside one window the older events share its end; in the reference they ended as superseded.
    accepted = {label, "superseded_by_newer_inbound"} if label in siblings else {label}
    return None if decision in accepted else f"we say {label}"


def _not_as_meant(decision: str, label: str, siblings: set[str]) -> str | None:
    if decision == "yielded_to_followup":
        return None if label == "not_eligible:conversation_silenced" else f"we say {label}, not silenced"
    if decision == "coalesced":
        return None if label == "enqueued" else f"we say {label}, not a job of its own"
    return None if label != decision or siblings - {decision} else "we say so too"


def _jobs_disagree(scenario: Scenario, windows: list[Decided], left_out: dict[str, str]) -> list[str]:
    """Number of jobs per conversation, and the message that each answers."""
    home = {event["id"]: event["payload"] for event in scenario.rows["events"]}
    own_jobs = set(left_out) | set(jobs_that_are_windows(scenario))
    expected: Counter[tuple[str, str]] = Counter(
        (job["payload"]["conversation_id"], job["payload"]["inbound_message_id"])
        for job in scenario.outcome["new_jobs"]
    )
    for event in own_jobs:
        if scenario.decided()[event]["decision"] == "coalesced":
            expected[home[event]["conversation_id"], home[event]["inbound_message_id"]] += 1
    made: Counter[tuple[str, str]] = Counter()
    for window in windows:
        if window.answered_message is not None:
            conversation = home[window.events[-1]]["conversation_id"]
            made[conversation.lower(), window.answered_message] += 1
    if any("upper-case" in why for why in left_out.values()) or made == expected:
        return []
    return [f"jobs: expected {sorted(expected.items())}, made {sorted(made.items())}"]
