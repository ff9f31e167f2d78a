"""Lines of JSON that ask for rows of the event log: what they may hold, and what is wrong with one (pure).

A line is an object with the columns of `event_log` that a producer decides on. Everything wrong with a line
is told at once, by line and field; the content of a payload never is, only its kind.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import msgspec

from db.publisher import EVENT_TYPES
from streams.events import EVENT_TYPE
from streams.identifiers import canonical_row_id, canonical_uuid
from streams.topics import SOURCE_MAX_BYTES

FIELDS: Final = ("id", "organization_id", "event_type", "entity_kind", "entity_id", "payload", "metadata")
CONTRACT: Final = ("conversation_id", "contact_id", "channel_session_id", "inbound_message_id")
"""The four UUIDs of a payload (spec/dispatch.md, step 2)."""
LARGEST_BYTES: Final = SOURCE_MAX_BYTES - 64 * 1024
"""Bytes of one line; above it the record would be refused by its topic."""

_E164 = re.compile(r"\+[1-9][0-9]{6,14}", re.ASCII).fullmatch
_NUL: Final = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_raw_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_whole = msgspec.json.Decoder(dict[str, object])


@dataclass(frozen=True, slots=True)
class LineError:
    """What is wrong with one field of one line; `field` is empty for the line as a whole."""

    line: int
    field: str
    what: str

    def __str__(self) -> str:
        """For example `line 3, payload.contact_id: is a number, must be a UUID`."""
        return f"line {self.line}{f', {self.field}' if self.field else ''}: {self.what}"


@dataclass(frozen=True, slots=True)
class EventLine:
    """A row to write; ids in lower case, `payload` and `metadata` as the JSON text that was given."""

    line: int
    id: str
    organization_id: str
    event_type: str
    payload: str
    metadata: str = "{}"
    entity_kind: str | None = None
    entity_id: str | None = None
    generated: bool = False
    """The line had no id and got this one."""


def read_line(number: int, text: bytes, *, any_payload: bool = False) -> EventLine | list[LineError]:
    """The row that a line asks for, or everything that is wrong with it.

    Args:
        number: of the line, from 1.
        text: the line.
        any_payload: the payload needs only to be an object, not the contract's four UUIDs.
    """
    errors: list[LineError] = []
    if len(text) > LARGEST_BYTES:
        return [LineError(number, "", f"has {len(text):,} bytes, at most {LARGEST_BYTES:,} are carried")]
    try:
        fields = _whole.decode(text)
        raw = _raw_fields.decode(text)
    except msgspec.ValidationError:
        return [LineError(number, "", "must be a JSON object")]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return [LineError(number, "", f"is not JSON ({_reason(error)})")]
    if _NUL.search(text):
        errors.append(LineError(number, "", r"holds \u0000, which Postgres' jsonb can't store"))
    errors += [LineError(number, name, _unknown(name)) for name in fields if name not in FIELDS]
    values = _Fields(number, fields, errors)
    event_id = values.text("id", canonical_row_id, "a UUID")
    organization_id = values.text("organization_id", canonical_row_id, "a UUID", required=True)
    event_type = values.text("event_type", _published, f"one of {', '.join(EVENT_TYPES)}") or EVENT_TYPE
    entity_kind = values.text("entity_kind", lambda text: text, "a text")
    entity_id = values.text("entity_id", canonical_row_id, "a UUID")
    payload = values.object("payload", required=True)
    metadata = values.object("metadata")
    if payload is not None and not any_payload:
        _check_payload(number, event_type, payload, errors)
    if errors or organization_id is None:
        return errors
    return EventLine(
        line=number,
        id=event_id or str(uuid4()),
        organization_id=organization_id,
        event_type=event_type,
        payload=bytes(raw["payload"]).decode(),
        metadata=bytes(raw["metadata"]).decode() if metadata is not None else "{}",
        entity_kind=entity_kind,
        entity_id=entity_id,
        generated=event_id is None,
    )


class _Fields:
    """The fields of a line, read one after the other; what is wrong is noted in `errors`."""

    def __init__(self, number: int, fields: dict[str, object], errors: list[LineError]) -> None:
        self._number = number
        self._fields = fields
        self._errors = errors

    def text(
        self, name: str, accept: Callable[[str], str | None], what: str, *, required: bool = False
    ) -> str | None:
        """The field as `accept` gives it back; None when absent (null counts as absent) or wrong."""
        found = self._fields.get(name)
        accepted = accept(found) if isinstance(found, str) else None
        if (found is not None or required) and accepted is None:
            self._errors.append(LineError(self._number, name, _must_be(found, what)))
        return accepted

    def object(self, name: str, *, required: bool = False) -> dict[str, object] | None:
        """The field as an object; None when absent or wrong."""
        found = self._fields.get(name)
        if isinstance(found, dict):
            return found
        if found is not None or required:
            self._errors.append(LineError(self._number, name, _must_be(found, "a JSON object")))
        return None


def _check_payload(number: int, event_type: str, payload: dict[str, object], errors: list[LineError]) -> None:
    """The contract of the payload; extra keys are allowed."""
    if event_type == EVENT_TYPE:
        for name in CONTRACT:
            if canonical_uuid(payload.get(name)) is None:
                errors.append(LineError(number, f"payload.{name}", _must_be(payload.get(name), "a UUID")))
        return
    phone = payload.get("phone")
    if not isinstance(phone, str) or not _E164(phone):
        errors.append(LineError(number, "payload.phone", _must_be(phone, "a phone number as +5511…")))


def _published(text: str) -> str | None:
    return text if text in EVENT_TYPES else None


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(name, FIELDS, n=1)
    hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(FIELDS)}"
    return f"is no field of an event; {hint}"


def _must_be(found: object, what: str) -> str:
    """What a value is and must be, without saying the value itself: it may be somebody's phone number."""
    if found is None:
        return f"is missing, must be {what}"
    if isinstance(found, str):
        kind = "an empty text" if not found else f"a text of {len(found)} characters"
    elif isinstance(found, bool):
        kind = "true or false"
    elif isinstance(found, (int, float)):
        kind = "a number"
    else:
        kind = "a list" if isinstance(found, list) else "an object"
    return f"is {kind}, must be {what}"


def _reason(error: Exception) -> str:
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return "not UTF-8"
    return str(error).removeprefix("JSON is malformed: ")
