"""Stop 7: may the AI answer this contact on this channel (pure).

Rules: spec/dispatch.md, step 4, stop 7; behaviours b051 to b068. Metadata is whatever the CRM's jsonb
holds: a value of an unexpected type counts as absent, nothing here raises.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

DAY_MS: Final = 86_400_000

Veto = Literal[
    "channel_disabled",
    "force_human",
    "conversation_silenced",
    "human_owner",
    "not_on_test_list",
    "not_authorized",
    "authorization_expired",
]
"""Why the AI may not answer; the stop's reason is `not_eligible:<veto>`."""


@dataclass(frozen=True, slots=True)
class EligibilityFacts:
    """The conversation with its own contact and channel session (not the payload's, b068)."""

    now_ms: float
    """The database's clock, ms since the epoch: ages are compared in its time."""
    channel_metadata: object
    """`channel_sessions.metadata`, decoded JSON; of it `disabled`, `ai_gate`, `ai_gate_mode` and
    `ai_test_phone_numbers` count."""
    force_human: bool
    silenced: bool
    """`bot_silenced_until` lies ahead; infinity does (b054)."""
    assignee_kind: str | None
    phone_number: str | None
    authorized_ms: float | None
    """`ai_authorized_at`, ms since the epoch; may be infinite."""


def veto(facts: EligibilityFacts, allowlist_ttl_days: float) -> Veto | None:
    """The first reason why the AI may not answer, in the reference's order (b051); None: it may."""
    metadata = facts.channel_metadata if isinstance(facts.channel_metadata, dict) else {}
    if metadata.get("disabled") is True:
        return "channel_disabled"
    if facts.force_human:
        return "force_human"
    if facts.silenced:
        return "conversation_silenced"
    if facts.assignee_kind == "user":
        return "human_owner"
    if metadata.get("ai_gate") != "allowlist":
        return None
    if metadata.get("ai_gate_mode") == "pre_go_live":
        listed = on_test_list(facts.phone_number, metadata.get("ai_test_phone_numbers"))
        return None if listed else "not_on_test_list"
    return _authorization_veto(facts, allowlist_ttl_days)


def _authorization_veto(facts: EligibilityFacts, allowlist_ttl_days: float) -> Veto | None:
    authorized_ms = facts.authorized_ms
    if authorized_ms is None or not math.isfinite(authorized_ms):
        return "not_authorized"  # at infinity counts as never (b060)
    if facts.now_ms - authorized_ms > allowlist_ttl_days * DAY_MS:
        return "authorization_expired"
    return None


def on_test_list(phone_number: str | None, test_list: object) -> bool:
    """Whether a number is on a channel's pre go-live list, with or without the Brazilian ninth digit.

    Entries that aren't phone numbers in international form match nobody.
    """
    if not isinstance(test_list, list):
        return False
    wanted = phone_variants(phone_number)
    return any(not wanted.isdisjoint(phone_variants(entry)) for entry in test_list)


_SEPARATORS = re.compile(r"[\s().-]")
_NUMBER = re.compile(r"\+?([0-9]{8,15})")


def phone_variants(phone_number: object) -> frozenset[str]:
    """The digits under which a number may be stored; empty when the text is no phone number.

    Brazilian mobile numbers got a ninth digit, a 9 after the area code, and channels report them with or
    without it: +55 85 9 8765-4321 and +55 85 8765-4321 are one line.
    """
    if not isinstance(phone_number, str):
        return frozenset()
    found = _NUMBER.fullmatch(_SEPARATORS.sub("", phone_number))
    if found is None:
        return frozenset()
    digits = found[1]
    if digits.startswith("55"):
        if len(digits) == 13 and digits[4] == "9":
            return frozenset((digits, digits[:4] + digits[5:]))
        if len(digits) == 12:
            return frozenset((digits, f"{digits[:4]}9{digits[4:]}"))
    return frozenset((digits,))
