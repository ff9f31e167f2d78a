"""Small builders of domain objects for tests; ids are readable but canonical UUIDs."""

from __future__ import annotations

import json
from uuid import UUID, uuid5

from streams.events import Event

NAMESPACE = UUID("00000000-0000-4000-8000-000000000001")


def uid(name: str) -> str:
    """A stable UUID for a readable name."""
    return str(uuid5(NAMESPACE, name))


def event(
    name: str = "e1",
    *,
    at: int = 1_000_000,
    conversation: str = "c1",
    contact: str = "ana",
    organization: str = "clinic",
    offset: int = 0,
    replay: int = 0,
    again: bool = False,
    attempts: int = 0,
) -> Event:
    """An event of `contact` in `conversation` at time `at` (ms)."""
    return Event(
        key=f"{uid(organization)}:{uid(contact)}".encode(),
        event_id=uid(name),
        organization_id=uid(organization),
        contact_id=uid(contact),
        conversation_id=uid(conversation),
        session_id=uid("session"),
        message_id=uid(f"message of {name}"),
        offset=offset,
        time_ms=at,
        replay=replay,
        again=again,
        attempts=attempts,
    )


def row(name: str = "e1", **changes: object) -> dict[str, object]:
    """An `event_log` row as the publisher gives it; `changes` replace or (None) keep columns."""
    payload = {
        "conversation_id": uid("c1"),
        "contact_id": uid("ana"),
        "channel_session_id": uid("session"),
        "inbound_message_id": uid(f"message of {name}"),
    }
    return {
        "id": uid(name),
        "organization_id": uid("clinic"),
        "event_type": "ai_agent.dispatch_requested",
        "payload": json.dumps(payload),
        "metadata": "{}",
        "attempts": 0,
        "status": "pending",
        **changes,
    }


def row_bytes(name: str = "e1", **changes: object) -> bytes:
    """The same as JSON bytes."""
    return json.dumps(row(name, **changes)).encode()
