"""What a due window asks of the database (pure; spec/dispatch.md, step 4)."""

from __future__ import annotations

from streams.contact import Window
from streams.identifiers import key_parts
from streams.question import AskedEvent, Question


def question_of(
    key: bytes, window: Window, *, now_ms: int, superseded_since_ms: int | None, max_wait_ms: int
) -> Question:
    """The question of a window under its contact's key; `max_wait_ms` counts where the window has none."""
    organization_id, contact_id = key_parts(key)
    return Question(
        organization_id=organization_id,
        conversation_id=window.conversation_id,
        contact_id=contact_id,
        channel_session_id=window.events[-1].session_id,
        events=tuple(
            AskedEvent(member.event_id, member.message_id, member.time_ms, member.replay)
            for member in window.events
        ),
        now_ms=now_ms,
        deadline_ms=window.deadline_ms,
        superseded_since_ms=superseded_since_ms,
        max_wait_ms=window.max_wait_ms or max_wait_ms,
        again=window.again,
    )
