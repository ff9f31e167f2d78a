"""The rows of one clinic for tests: as it is made, nothing keeps the AI from answering its customer.

Rows have names, whose `uid` is their id; so do columns that end in `_id`. Times are seconds from now:
-10 is ten seconds ago. The names are those of `tests.unit.builders`: clinic, session, ana, c1, e1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from streams.question import AskedEvent, Question
from tests.integration.crm_tables import TABLES, TIMES, Row, Tables
from tests.unit.builders import uid

DISPATCH = "ai_agent.dispatch_requested"
NEWS_FLOW = {"nodes": [{"id": "t", "type": "trigger"}, {"id": "a", "type": "action"}], "edges": []}
"""A follow-up flow that only sends texts."""
DAY_S = 86_400


def returns_after(minutes: float, **params: object) -> object:
    """The trigger of a follow-up flow for customers who are back after a silence of so many minutes."""
    return {"kind": "inbound_after_silence", "params": {"threshold_minutes": minutes, **params}}


class State:
    """Rows by table and name, and the events that a due window holds.

    A method that changes something returns the state, so that a lambda can say all of a case.
    """

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.asked: tuple[str, ...] = ("e1",)
        self._rows: dict[str, dict[str, Row]] = {table: {} for table in TABLES}
        self.put("organizations", "clinic", status="active", settings={})
        self.put("channel_sessions", "session", metadata={})
        self.put("contacts", "ana", phone_number="+5511987654321")
        self.put("conversations", "c1", contact_id="ana", channel_session_id="session", assignee_kind="ai")
        self.agent("a")
        self.event("e1", age_s=10)

    # -- changes

    def put(self, table: str, name: str, **columns: object) -> State:
        """Change the row of that name, or add it."""
        row = self._rows[table].setdefault(
            name, {"id": name} if table == "organizations" else {"id": name, "organization_id": "clinic"}
        )
        row.update(columns)
        return self

    def drop(self, table: str, *names: str) -> State:
        """Remove these rows, or the whole table."""
        for name in names or tuple(self._rows[table]):
            del self._rows[table][name]
        return self

    def clinic(self, **columns: object) -> State:
        """Change the organization."""
        return self.put("organizations", "clinic", **columns)

    def channel(self, **metadata: object) -> State:
        """Set the metadata of the channel session."""
        return self.put("channel_sessions", "session", metadata=metadata)

    def contact(self, **columns: object) -> State:
        """Change the customer."""
        return self.put("contacts", "ana", **columns)

    def conversation(self, **columns: object) -> State:
        """Change the conversation."""
        return self.put("conversations", "c1", **columns)

    def agent(
        self, name: str, *, session: str = "session", status: str = "published", **columns: object
    ) -> State:
        """An agent whose version, in that status, is bound to that session."""
        version = f"version of {name}"
        self.put("ai_agent_versions", version, agent_id=name, channel_session_id=session, status=status)
        return self.put("ai_agents", name, **{"published_version_id": version, **columns})

    def paused(self, name: str, *, session: str = "session") -> State:
        """An agent paused the old way: it points to no version, and its last one is superseded."""
        return self.agent(name, session=session, status="superseded", published_version_id=None)

    def router(self, *members: str, fallback: str | None = None, **columns: object) -> State:
        """A router on the session; the agent that serves it otherwise is gone."""
        values = {"channel_session_id": "session", "is_active": True, "fallback_agent_id": fallback}
        self.put("ai_routers", "router", **{**values, **columns})
        for member in members:
            row: Row = {"organization_id": "clinic", "router_id": "router", "agent_id": member}
            self._rows["ai_router_members"][member] = row
        return self.drop("ai_agents", "a")

    def message(self, name: str, *, age_s: float = 10.0, **columns: object) -> State:
        """A message of the customer, `message of <name>`; in the conversation unless told otherwise."""
        values = {"conversation_id": "c1", "contact_id": "ana", "direction": "inbound", "type": "text"}
        return self.put("messages", f"message of {name}", **{**values, "created_at": -age_s, **columns})

    def event(self, name: str, *, age_s: float = 10.0, **columns: object) -> State:
        """A message and its event, pending."""
        self.message(name, age_s=age_s, **columns)
        return self.put("event_log", name, event_type=DISPATCH, status="pending", created_at=-age_s)

    def media(self, name: str = "e1", *, age_s: float = 10.0, **columns: object) -> State:
        """An audio that nobody has read yet; by default it is the message that is asked about."""
        values = {"type": "audio", "media_url": "u", "media_derived_status": "pending"}
        return self.message(name, age_s=age_s, **{**values, **columns})

    def job(self, name: str, **columns: object) -> State:
        """A job of the customer, about an older message, that waits."""
        values = {
            "contact_id": "ana",
            "kind": "inbound_turn",
            "status": "pending",
            "source_event_id": f"event of {name}",
            "payload": {"conversation_id": uid("c1")},
            "run_after": 5,
        }
        return self.put("job_queue", name, **{**values, **columns})

    def returning(
        self, *, after_s: float = 2 * DAY_S, flow: object = NEWS_FLOW, trigger: object = None
    ) -> State:
        """The customer is back after a silence, and a flow that greets after one day is armed."""
        self.message("long ago", age_s=10 + after_s)
        self.put("followup_flow_versions", "flow", graph=flow)
        return self.flow("pointer", trigger or returns_after(1_440), active_version_id="flow")

    def flow(self, name: str, trigger: object, **columns: object) -> State:
        """An active pointer to a follow-up flow."""
        return self.put("followup_flow_pointers", name, status="active", trigger_config=trigger, **columns)

    def enrolled(self, status: str, *, age_s: float = 3_600.0, pointer: str = "pointer") -> State:
        """The customer was enrolled in a flow so long ago."""
        values = {"pointer_id": pointer, "contact_id": "ana", "status": status, "started_at": -age_s}
        return self.put("followup_enrollments", "enrollment", **values)

    def enrolled_by(self, message: str) -> State:
        """The enrollment was made by that message."""
        return self.put(
            "followup_enrollment_events",
            "enrolled",
            enrollment_id="enrollment",
            event_type="enrolled_by_inbound_after_silence",
            payload={"message_id": uid(f"message of {message}")},
        )

    def asks(self, *events: str) -> State:
        """The window holds these events, in this order."""
        self.asked = events
        return self

    # -- what tests read

    def tables(self) -> Tables:
        """The rows with ids and times, as they are stored."""
        return {table: [self._stored(row) for row in rows.values()] for table, rows in self._rows.items()}

    def _stored(self, row: Row) -> Row:
        return {name: self._value(name, value) for name, value in row.items()}

    def _value(self, name: str, value: object) -> object:
        if isinstance(value, str) and (name == "id" or name.endswith("_id")):
            return uid(value)
        if name in TIMES and isinstance(value, (int, float)):
            return value if math.isinf(value) else self.now_ms + value * 1_000
        return value

    def question(self, events: Sequence[str] | None = None) -> Question:
        """What the window asks when it is due, which it is now."""
        return Question(
            organization_id=uid("clinic"),
            conversation_id=uid("c1"),
            contact_id=uid("ana"),
            channel_session_id=uid("session"),
            events=tuple(
                AskedEvent(uid(name), uid(f"message of {name}"), self.now_ms - 10_000)
                for name in events or self.asked
            ),
            now_ms=self.now_ms,
            deadline_ms=self.now_ms,
        )
