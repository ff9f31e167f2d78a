"""Facts from plain rows: what the three statements should tell, written a second time, in Python.

The decisions from these facts and from Postgres' must be the same: that checks the SQL.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable

from streams.eligibility import EligibilityFacts
from streams.fact_rows import NO_FOLLOWUP
from streams.followup import Flow, FollowupFacts, armed_pointers, read_flow
from streams.question import Facts, Question
from tests.integration.crm_tables import Row, Tables

RETURN = "inbound_after_silence"
LIVE = ("active", "waiting_reply", "paused_handoff", "paused_manual")
DERIVABLE = ("audio", "image", "document", "video")


def facts_in_memory(tables: Tables, question: Question, now_ms: float) -> Facts:
    """The facts of one window on these rows, with `now_ms` as the database's clock."""
    return _Reader(tables, question, now_ms).facts()


class _Reader:
    def __init__(self, tables: Tables, question: Question, now_ms: float) -> None:
        self.tables = tables
        self.question = question
        self.organization_id = question.organization_id
        self.now_ms = now_ms

    def facts(self) -> Facts:
        organization = self.by_id("organizations", self.organization_id, owned=False)
        settings = organization.get("settings") if organization else None
        mode = settings.get("ai_dispatch_mode") if isinstance(settings, dict) else None
        conversation = self.by_id("conversations", self.question.conversation_id)
        serving = self.serving_agents()
        return Facts(
            db_now_ms=self.now_ms,
            organization_status=_text(organization.get("status")) if organization else None,
            dispatch_mode=_as_text(mode),
            conversation_found=conversation is not None,
            is_group=_bool(conversation.get("is_group", False)) if conversation else None,
            agent_can_execute=bool(serving),
            assisted=any(agent.get("operation_mode", "automatic") == "assisted" for agent in serving),
            latest_message_id=self.latest_message_id(),
            unread_media_created_ms=self.unread_media(),
            contact_found=self.by_id("contacts", self.question.contact_id) is not None,
            known={event_id: job for event_id, (job, _, done) in self.told_before().items() if done},
            of_others={
                event_id: job
                for event_id, (job, contact_id, _) in self.told_before().items()
                if contact_id not in (None, self.question.contact_id)
            },
            followup=self.followup(conversation),
            eligibility=self.eligibility(conversation),
        )

    # -- look-ups

    def rows(self, table: str) -> Iterable[Row]:
        return (row for row in self.tables.get(table, ()) if row["organization_id"] == self.organization_id)

    def by_id(self, table: str, wanted: object, *, owned: bool = True) -> Row | None:
        rows = self.rows(table) if owned else self.tables.get(table, ())
        return next((row for row in rows if row["id"] == wanted and wanted is not None), None)

    def published_version(self, agent: Row) -> Row | None:
        if agent.get("archived_at") is not None:
            return None
        version = self.by_id("ai_agent_versions", agent.get("published_version_id"))
        return version if version is not None and version.get("status") == "published" else None

    # -- stop 4

    def serving_agents(self) -> list[Row]:
        session = self.question.channel_session_id
        agents = [agent for agent in self.rows("ai_agents") if self.published_version(agent)]
        found = [a for a in agents if (self.published_version(a) or {}).get("channel_session_id") == session]
        for router in self.rows("ai_routers"):
            if router.get("channel_session_id") != session or router.get("is_active", True) is not True:
                continue
            candidates = {router.get("fallback_agent_id")}
            candidates |= {
                member["agent_id"]
                for member in self.rows("ai_router_members")
                if member["router_id"] == router["id"]
            }
            found += [agent for agent in agents if agent["id"] in candidates]
        return found

    # -- stops 5 and 8

    def inbound(self) -> list[Row]:
        return [
            row
            for row in self.rows("messages")
            if row.get("conversation_id") == self.question.conversation_id
            and row.get("direction") == "inbound"
        ]

    def latest_message_id(self) -> str | None:
        timed = [row for row in self.inbound() if _recency(row) is not None]
        if not timed:
            return None
        latest = max(timed, key=lambda row: (_recency(row), _nulls_last(_time(row, "created_at")), row["id"]))
        return str(latest["id"])

    def unread_media(self) -> float | None:
        media = [
            row for row in self.inbound() if row.get("type", "text") in DERIVABLE and row.get("media_url")
        ]
        media.sort(key=lambda row: _nulls_last(_time(row, "created_at")), reverse=True)
        for row in media[:20]:
            if row.get("media_derived_status") not in ("ready", "failed", "skipped"):
                return _floor(_time(row, "created_at"))
        return None

    # -- stop 0

    def told_before(self) -> dict[str, tuple[str | None, str | None, bool]]:
        """Event → its job, whose it is, and whether it has an outcome: of what anybody told of it before."""
        told: dict[str, tuple[str | None, str | None, bool]] = {}
        for event in self.question.events:
            key = f"{self.organization_id}:{self.question.contact_id}"
            rows: list[tuple[str | None, str | None, bool]] = []
            for row in self.rows("event_log"):
                in_key = _text(row.get("partition_key"))
                done, another = row.get("status") == "done", in_key is not None and in_key != key
                if row["id"] == event.event_id and (done or another):
                    contact_id = in_key.partition(":")[2] if in_key else None
                    of = None if contact_id == event.event_id else contact_id
                    rows.append((_text(row.get("job_id")), of, done))
            rows += self.jobs(lambda job: job.get("source_event_id") == event.event_id)  # noqa: B023
            rows += self.jobs(lambda job: event.event_id in _named(job))  # noqa: B023
            if rows:
                told[event.event_id] = (
                    next((job for job, _, _ in rows if job is not None), None),
                    next((contact_id for _, contact_id, _ in rows if contact_id is not None), None),
                    any(done for _, _, done in rows),
                )
        return told

    def jobs(self, of_event: Callable[[Row], bool]) -> list[tuple[str | None, str | None, bool]]:
        found = sorted(
            (str(job["id"]), _text(job.get("contact_id"))) for job in self.rows("job_queue") if of_event(job)
        )
        return [(job_id, contact_id, True) for job_id, contact_id in found]

    # -- stop 6

    def flows(self) -> tuple[Flow, ...]:
        followups = [
            version.get("followup")
            for agent in self.rows("ai_agents")
            if (version := self.published_version(agent))
        ]
        armed = armed_pointers(followups)
        flows = []
        for pointer in self.rows("followup_flow_pointers"):
            if pointer.get("status") != "active" or pointer.get("active_version_id") is None:
                continue
            version = self.by_id("followup_flow_versions", pointer["active_version_id"])
            graph = version.get("graph", {}) if version else None
            flows.append(read_flow(str(pointer["id"]), pointer.get("trigger_config"), graph, armed))
        return tuple(flow for flow in flows if flow is not None)

    def followup(self, conversation: Row | None) -> FollowupFacts:
        flows = self.flows()
        contact = self.by_id("contacts", self.question.contact_id)
        if not flows or conversation is None or contact is None:
            return NO_FOLLOWUP
        messages = {event.message_id for event in self.question.events}
        came = [
            created
            for row in self.rows("messages")
            if row["id"] in messages and (created := _time(row, "created_at")) is not None
        ]
        enrollments = [row for row in self.rows("followup_enrollments") if row["contact_id"] == contact["id"]]
        live = [row for row in enrollments if row.get("status") in LIVE]
        tags = contact.get("tags") or []
        assert isinstance(tags, list)
        return FollowupFacts(
            flows=flows,
            conversation_and_contact_found=True,
            is_group=conversation.get("is_group", False) is not False,
            is_blocked=contact.get("is_blocked", False) is True,
            force_human=contact.get("force_human", False) is True,
            silenced=self.silenced(conversation),
            assignee_kind=_text(conversation.get("assignee_kind")),
            tags=frozenset(tag for tag in tags if isinstance(tag, str)),
            enrolled_by_window=any(self.enrolled_by(row, messages) for row in enrollments),
            live_enrollment=bool(live),
            live_return_since=bool(came)
            and any(_reached(_time(row, "started_at"), min(came)) and self.of_return(row) for row in live),
            gap_ms=self.gap(messages, contact),
        )

    def enrolled_by(self, enrollment: Row, messages: set[str]) -> bool:
        return any(
            row["enrollment_id"] == enrollment["id"]
            and row.get("event_type") == "enrolled_by_inbound_after_silence"
            and isinstance(payload := row.get("payload"), dict)
            and str(payload.get("message_id")).lower() in messages
            for row in self.rows("followup_enrollment_events")
        )

    def of_return(self, enrollment: Row) -> bool:
        pointer = self.by_id("followup_flow_pointers", enrollment.get("pointer_id"))
        trigger = pointer.get("trigger_config") if pointer else None
        return isinstance(trigger, dict) and trigger.get("kind") == RETURN

    def gap(self, messages: set[str], contact: Row) -> float | None:
        asked = [row for row in self.rows("messages") if row["id"] in messages]
        if not asked:
            return None
        newest = max(
            asked,
            key=lambda row: (
                (_recency(row) is not None, _or(_recency(row), 0)),
                _nulls_last(_time(row, "created_at")),
                row["id"],
            ),
        )
        came = _time(newest, "created_at")
        before = [
            _recency(row)
            for row in self.rows("messages")
            if row.get("contact_id") == contact["id"]
            and row.get("direction") == "inbound"
            and row["id"] != newest["id"]
            and _reached(came, _time(row, "created_at"))
        ]
        latest = max((at for at in before if at is not None), default=None)
        if came is None or latest is None:
            return None
        return _or(_floor(came), 0) - _or(_floor(latest), 0)

    # -- stop 7

    def silenced(self, conversation: Row) -> bool:
        until = _time(conversation, "bot_silenced_until")
        return until is not None and until > self.now_ms

    def eligibility(self, conversation: Row | None) -> EligibilityFacts | None:
        if conversation is None:
            return None
        contact = self.by_id("contacts", conversation.get("contact_id"))
        session = self.by_id("channel_sessions", conversation.get("channel_session_id"))
        if contact is None or session is None:
            return None
        return EligibilityFacts(
            now_ms=self.now_ms,
            channel_metadata=session.get("metadata", {}),
            force_human=contact.get("force_human", False) is True,
            silenced=self.silenced(conversation),
            assignee_kind=_text(conversation.get("assignee_kind")),
            phone_number=_text(contact.get("phone_number")),
            authorized_ms=_floor(_time(contact, "ai_authorized_at")),
        )


def _named(job: Row) -> list[object]:
    payload = job.get("payload")
    named = payload.get("event_ids") if isinstance(payload, dict) else None
    return named if isinstance(named, list) else []


def _time(row: Row, name: str) -> float | None:
    value = row.get(name)
    assert value is None or isinstance(value, (int, float))
    return value


def _recency(row: Row) -> float | None:
    sent = _time(row, "sent_at")
    return sent if sent is not None else _time(row, "created_at")


def _or(value: float | None, otherwise: float) -> float:
    return otherwise if value is None else value


def _reached(time: float | None, mark: float | None) -> bool:
    return time is not None and mark is not None and time >= mark


def _nulls_last(value: float | None) -> tuple[bool, float]:
    """Sorts as Postgres does: null comes after infinity, so first in descending order."""
    return value is None, _or(value, 0)


def _floor(value: float | None) -> float | None:
    return value if value is None or math.isinf(value) else float(math.floor(value))


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _as_text(value: object) -> str | None:
    """As `->>` gives it."""
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value)
