"""Content without personal data, for screens: ids, states and times stay, what people wrote or are does not.

What is open is a list, so that a field nobody thought of is veiled (pure).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

import msgspec

from schemas.dead import Header
from schemas.masking import masked

_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE).fullmatch
_NUMBER: Final = re.compile(r"\d{1,20}", re.ASCII).fullmatch
_JSON: Final = frozenset({"payload", "metadata", "facts", "result"})
"""Fields that hold JSON as text."""
_OPEN: Final = frozenset(
    {
        *("event_type", "entity_kind", "status", "kind", "stage", "outcome", "action", "flow", "run_by"),
        *("created_at", "updated_at", "next_attempt_at", "job_status", "consumed_by", "replay_of", "type"),
        *("template_name", "template_language", "language"),
    }
)
_OPEN_HEADERS: Final = frozenset(
    {
        *("stage", "reason", "first-failed-at", "attempt", "replay", "replays", "again", "rekeyed"),
        *("copied-from", "reconstructed", "truncated", "erased", "due-at", "event_type", "cdc_op"),
        *("traceparent", "tracestate"),
    }
)
_NUMBERS: Final = frozenset(
    {
        *("first-failed-at", "due-at", "original-timestamp", "replay", "cdc_source_ts_ms"),
        *("kafka_dlt-original-timestamp", "kafka_dlt-original-offset"),
    }
)
"""Headers whose long numbers are times and places, and no phones."""
_MASKED: Final = frozenset({"last_error", "reason", "because"})
"""Texts that were masked when they were written; once more does no harm."""
_SMALL: Final = 10**7
"""A number below it is no phone."""
_DEEP: Final = 20


def veiled(value: object, name: str = "", depth: int = 0) -> object:
    """A decoded value as it may be shown; `name` is that of its field."""
    if depth > _DEEP:
        return "‹nested too deeply›"
    match value:
        case bool() | None:
            return value
        case int() | float():
            return value if abs(value) < _SMALL or _is_time(name) else "‹a large number›"
        case str():
            return _text(value, name, depth)
        case bytes():
            return f"‹{len(value):,} bytes›"
        case Mapping():
            return {masked(str(key)): veiled(one, str(key), depth + 1) for key, one in value.items()}
        case list() | tuple():
            return [veiled(one, name, depth + 1) for one in value]
        case _:
            return f"‹{type(value).__name__}›"


def _is_time(name: str) -> bool:
    return name.endswith("_ms") or name in ("replay", "seq", "copy")


def _text(value: str, name: str, depth: int) -> object:
    if not value or _UUID(value):
        return value
    if name in _JSON:
        try:
            return veiled(msgspec.json.decode(value), name, depth + 1)
        except (msgspec.DecodeError, ValueError, RecursionError):
            pass
    if name in _OPEN or name in _MASKED or name.endswith("_at"):
        return masked(value)
    if name == "partition_key":
        return veiled_key(value.encode())
    return f"‹text of {len(value):,} characters›"


def veiled_key(key: bytes | None) -> str | None:
    """A record's key: organization and contact stay, a phone does not."""
    if key is None:
        return None
    parts = key.decode(errors="replace").split(":", 1)
    return ":".join(part if _UUID(part) else f"‹{len(part)} characters›" for part in parts)


def veiled_header(header: Header) -> str | None:
    """A header's value: ours stay, of others only ids and short numbers."""
    name, value = header
    if value is None:
        return None
    text = value.decode(errors="replace")
    if name in _NUMBERS and _NUMBER(text):
        return text
    if name in _OPEN_HEADERS or name.startswith(("kafka_dlt-", "cdc_source_")):
        return masked(text)
    if _UUID(text) or (_NUMBER(text) and int(text) < _SMALL):
        return text
    return f"‹{len(value):,} bytes›"
