"""What the demo says of outcomes, in words (pure)."""

from __future__ import annotations

from typing import Final

MEANINGS: Final = {
    "invalid_payload": "the event's payload isn't four UUIDs",
    "org_not_operating": "the organization is suspended",
    "org_external_dispatch": "another system answers for this organization",
    "group_or_missing_conversation": "a group is never answered",
    "no_published_agent": "the number's agent is paused",
    "superseded_by_newer_inbound": "a newer message came while it was decided; its window answers",
    "yielded_to_followup": "a follow-up flow answers",
    "not_eligible:human_owner": "a person of the clinic has the conversation",
    "contact_missing": "the contact is gone from the CRM",
    "not_json": "the bytes are no JSON",
    "http_422": "the engine can't do that turn: its job is dead",
}
"""Outcome → why, for somebody who sees it the first time."""

ENDS: Final = {
    "answered": "each under its own idempotency key",
    "merged": "into a newer turn, since both waited for a long one",
    "covered": "by a newer turn, while it waited for its retry",
    "vetoed": "the engine says: never; nobody is alarmed",
    "cancelled": "by a person",
    "dead": "given up: dead letter and alert",
}
"""How a job ended → in words."""

_MARKS: Final = {"image": "▣ ", "audio": "♪ "}


_STATES: Final = {"provisioning_failed": "failed"}


def told_state(state: str) -> str:
    """An instance's state in a word."""
    return _STATES.get(state, state)


def bubble(text: str, kind: str) -> str:
    """A message as it is shown; photos and audios have a mark."""
    return f"{_MARKS.get(kind, '')}{text}"


def counted(count: int, noun: str) -> str:
    """`1 message`, `5 messages`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def milliseconds(value: float | None) -> str:
    """A latency, or a dash when there is none."""
    return "–" if value is None else f"{value:.0f} ms"
