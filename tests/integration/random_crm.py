"""Random rows of a small CRM, made to collide: few ids, odd values, times that tie and never end."""

from __future__ import annotations

import math
import random
from uuid import UUID

from streams.question import AskedEvent, Question
from tests.integration.crm_tables import Row, Tables
from tests.integration.memory_facts import LIVE

MINUTE_MS = 60_000
DAY_MS = 86_400_000
ODD_JSON: tuple[object, ...] = (
    None,
    True,
    "true",
    "abc",
    7,
    -1.5,
    10**30,
    [],
    {},
    ["allowlist"],
    {"ai_gate": ["allowlist"]},
    {"ai_gate": "allowlist", "ai_gate_mode": 3, "disabled": "true"},
    {"ai_gate": "allowlist", "ai_gate_mode": "pre_go_live", "ai_test_phone_numbers": "+5511987654321"},
    {"ai_gate": 10**400, "disabled": [[[]]]},
)
SETTINGS: tuple[object, ...] = (
    {"ai_dispatch_mode": "external"},
    {"ai_dispatch_mode": "native"},
    {"ai_dispatch_mode": ["external"]},
)
METADATA: tuple[object, ...] = (
    {},
    {"ai_gate": "open"},
    {"ai_gate": "allowlist"},
    {"ai_gate": "ALLOWLIST"},
    {"ai_gate": "allowlist", "disabled": True},
    {
        "ai_gate": "allowlist",
        "ai_gate_mode": "pre_go_live",
        "ai_test_phone_numbers": ["+551187654321", None, 5],
    },
)
EVENT_IDS: tuple[object, ...] = ({}, {"event_ids": "abc"}, {"event_ids": {"a": 1}}, {"event_ids": [[1]]})
TRIGGERS: tuple[object, ...] = (
    {"kind": "inbound_after_silence", "params": {"threshold_minutes": 60}},
    {"kind": "inbound_after_silence", "params": {"threshold_minutes": 1440, "segments": ["vip"]}},
    {"kind": "inbound_after_silence", "params": {"threshold_minutes": 90.5}},
    {"kind": "inbound_after_silence", "params": {"threshold_minutes": "abc"}},
    {"kind": "inbound_after_silence", "params": [1]},
    {"kind": "inbound_after_silence"},
    {"kind": "manual", "params": {"threshold_minutes": 60}},
    ["inbound_after_silence"],
    "inbound_after_silence",
)
GRAPHS: tuple[object, ...] = (
    {
        "nodes": [{"id": "t", "type": "trigger"}, {"id": "a", "type": "action", "config": {"mode": "text"}}],
        "edges": [],
    },
    {
        "nodes": [{"id": "t", "type": "trigger"}, {"id": "w", "type": "wait", "config": {"mode": "smart"}}],
        "edges": [],
    },
    {"nodes": [{"id": "t", "type": "trigger"}, {"id": "c", "type": "ai_classify"}], "edges": []},
    {"nodes": [{"id": "z"}], "edges": []},
    {"nodes": 3},
    [],
    "graph",
)


class RandomCrm:
    """One random state and windows that ask about it; the same for the same seed."""

    def __init__(self, seed: int, now_ms: int) -> None:
        self.random = random.Random(seed)
        self.now_ms = now_ms
        self.seed = seed
        self.foreign = self.random.choice((0.03, 0.03, 0.3))
        """How often a row belongs to another organization."""

    def uid(self, kind: str, n: int) -> str:
        return str(UUID(int=(self.seed << 64) + (sum(map(ord, kind)) << 32) + n + (4 << 76) + (8 << 60)))

    def one(self, kind: str, among: int, none: float = 0.1) -> str | None:
        """The id of one of `among` rows; now and then None, or one of a row that isn't there."""
        if self.random.random() < none:
            return None
        return self.uid(kind, self.random.randrange(among + (self.random.random() < 0.1)))

    def mostly(self, common: object, *rare: object) -> object:
        return common if self.random.random() < 0.88 else self.random.choice(rare)

    def moment(self, none: float = 0.2) -> float | None:
        """A time around now: shared by several rows, hours apart, infinite, or none."""
        if self.random.random() < none:
            return None
        offset = self.random.choice(
            (
                -1,
                -50,
                -900,
                -30_000,
                -90_000,
                -119_000,
                -130_000,
                -70 * MINUTE_MS,
                -2 * DAY_MS,
                -22 * DAY_MS,
                DAY_MS,
            )
        )
        if self.random.random() < 0.05:
            return self.random.choice((math.inf, -math.inf))
        return self.now_ms + offset

    def organization(self) -> str:
        return self.uid("organization", 1 if self.random.random() < self.foreign else 0)

    def rows(self, count: int, make: object) -> list[Row]:
        assert callable(make)
        return [
            {"organization_id": self.organization(), **make(n)}
            for n in range(self.random.randrange(count // 2, count + 1))
        ]

    def tables(self) -> Tables:
        pick, mostly = self.random.choice, self.mostly
        return {
            "organizations": [
                {
                    "id": self.uid("organization", n),
                    "status": mostly("active", "suspended", "ACTIVE", None),
                    "settings": mostly({}, *SETTINGS, *ODD_JSON),
                }
                for n in range(self.random.choice((1, 2, 2)))
            ],
            "channel_sessions": self.rows(3, lambda n: {
                "id": self.uid("session", n), "metadata": pick((*METADATA, *METADATA, *ODD_JSON)),
            }),
            "contacts": self.rows(4, lambda n: {
                "id": self.uid("contact", n),
                "phone_number": pick((None, "+5511987654321", "+551187654321", "11 98765", "abc")),
                "force_human": mostly(False, True, None),
                "is_blocked": mostly(False, True, None),
                "tags": pick(([], ["vip"], ["x", None], None)),
                "ai_authorized_at": self.moment(),
            }),
            "conversations": self.rows(5, lambda n: {
                "id": self.uid("conversation", n),
                "contact_id": self.one("contact", 3),
                "channel_session_id": self.one("session", 1),
                "is_group": mostly(False, True, None),
                "assignee_kind": mostly("ai", "user", None, "User"),
                "bot_silenced_until": self.moment(0.7),
                "active_ai_agent_id": self.one("agent", 3, 0.5),
            }),
            "messages": self.rows(30, lambda n: {
                "id": self.uid("message", n),
                "conversation_id": self.one("conversation", 3, 0),
                "contact_id": self.one("contact", 3),
                "direction": mostly("inbound", "outbound", None),
                "type": pick(("text", "text", "audio", "image", "document", "video", "sticker")),
                "media_url": pick((None, "", "u", "u")),
                "media_derived_status": pick((None, "", "pending", "ready", "failed", "READY")),
                "sent_at": self.moment(),
                "created_at": self.moment(0.05),
            }),
            "ai_agents": self.rows(4, lambda n: {
                "id": self.uid("agent", n),
                "published_version_id": self.one("version", 4, 0.05),
                "operation_mode": mostly("automatic", "assisted"),
                "priority": pick((0, 1, 1, None)),
                "archived_at": self.moment(0.9),
                "paused_at": self.moment(0.8),
                "created_at": self.moment(0.1),
            }),
            "ai_agent_versions": self.rows(5, lambda n: {
                "id": self.uid("version", n),
                "agent_id": self.one("agent", 3, 0),
                "channel_session_id": self.one("session", 1),
                "status": mostly("published", "draft", "superseded", None),
                "followup": pick((None, self.arming(), self.arming(), self.arming(), *ODD_JSON[::4])),
            }),
            "ai_routers": self.rows(2, lambda n: {
                "id": self.uid("router", n),
                "channel_session_id": self.one("session", 1),
                "is_active": mostly(True, False, None),
                "fallback_agent_id": self.one("agent", 3, 0.5),
            }),
            "ai_router_members": [
                {"organization_id": self.organization(), "router_id": router, "agent_id": agent}
                for router in (self.uid("router", 0), self.uid("router", 1))
                for agent in (self.uid("agent", 0), self.uid("agent", 1), self.uid("agent", 2))
                if self.random.random() < 0.4
            ],
            "followup_flow_pointers": self.rows(3, lambda n: {
                "id": self.uid("pointer", n),
                "status": mostly("active", "draft"),
                "active_version_id": self.one("flow", 2),
                "trigger_config": pick((*TRIGGERS[:2], *TRIGGERS[:2], *TRIGGERS)),
            }),
            "followup_flow_versions": self.rows(3, lambda n: {
                "id": self.uid("flow", n), "graph": pick((*GRAPHS[:3], *GRAPHS[:3], *GRAPHS)),
            }),
            "followup_enrollments": self.rows(4, lambda n: {
                "id": self.uid("enrollment", n),
                "pointer_id": self.one("pointer", 2, 0),
                "contact_id": self.one("contact", 3, 0),
                "status": pick((*LIVE, "completed", "dead", None)),
                "started_at": self.moment(0.1),
            }),
            "followup_enrollment_events": self.rows(8, lambda n: {
                "enrollment_id": self.one("enrollment", 4, 0),
                "event_type": pick(("enrolled_by_inbound_after_silence", "moved")),
                "payload": pick((*(self.naming_a_message() for _ in range(6)), *ODD_JSON[::3])),
            }),
            "event_log": self.rows(6, lambda n: {
                "id": self.uid("event", n), "status": pick(("pending", "pending", "done", "dead")),
                "job_id": pick((None, self.uid("job", 0))),
            }),
            "job_queue": self.rows(3, lambda n: {
                "id": self.uid("job", n),
                "source_event_id": pick((None, self.uid("event", n))),
                "payload": pick(({"event_ids": [self.uid("event", n + 3)]}, *EVENT_IDS, *ODD_JSON)),
            }),
        }  # fmt: skip

    def arming(self) -> object:
        return {
            "enabled": True,
            "flow_pointer_ids": [self.uid("pointer", self.random.randrange(3)).upper(), 5],
        }

    def naming_a_message(self) -> object:
        named = self.uid("message", self.random.randrange(4))
        return {"message_id": named.upper() if self.random.random() < 0.5 else named}

    def question(self) -> Question:
        """A window on a conversation that mostly is there."""
        first = self.random.randrange(8)
        events = tuple(
            AskedEvent(
                self.uid("event", first + n),
                self.uid("message", self.random.randrange(self.random.choice((4, 30)))),
                self.now_ms - 10_000 + n,
            )
            for n in range(self.random.randrange(1, 5))
        )
        return Question(
            organization_id=self.organization(),
            conversation_id=self.one("conversation", 3, 0) or "",
            contact_id=self.one("contact", 3, 0) or "",
            channel_session_id=self.one("session", 1, 0) or "",
            events=events,
            now_ms=self.now_ms,
            deadline_ms=self.now_ms,
            superseded_since_ms=self.random.choice((None, self.now_ms - 31_000)),
            again=self.random.random() < 0.1,
        )
