"""Jobs of turns, for tests that hand them to an engine."""

from __future__ import annotations

import json

from schemas.records import EventRef, Job
from tests.unit.builders import uid

NOW = 1_764_500_000_000


def turn(name: str = "j1", *, contact: str = "ana", payload: str | None = None) -> Job:
    """The job of a window of two messages of `contact`."""
    events = [uid(f"{name} e1"), uid(f"{name} e2")]
    return Job(
        id=uid(name),
        organization_id=uid("clinic"),
        contact_id=uid(contact),
        kind="inbound_turn",
        source_event_id=events[0],
        seq=2,
        created_at_ms=NOW,
        run_after_ms=NOW,
        payload=payload
        or json.dumps(
            {
                "conversation_id": uid(f"conversation of {contact}"),
                "contact_id": uid(contact),
                "channel_session_id": uid("session"),
                "inbound_message_id": uid(f"{name} m2"),
                "crm_event_id": events[0],
                "event_ids": events,
            }
        ),
        events=tuple(EventRef(event) for event in events),
    )
