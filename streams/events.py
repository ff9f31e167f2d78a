"""From the bytes of a source record to an event, or to the reason why it is none (pure).

The value is the flat `event_log` row as the publisher gives it, as JSON or as an Avro single object;
anybody may produce one by hand (spec/dispatch.md, steps 1 and 2). Nothing here raises on any bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeVar, cast

import msgspec

from schemas.codec import decode_event, is_avro
from schemas.errors import Undecodable, UnknownSchema
from schemas.topic_names import SOURCE
from streams.deep_json import top_level
from streams.identifiers import canonical_row_id, canonical_uuid, six_canonical

EVENT_TYPE: Final = SOURCE

MOST_ATTEMPTS: Final = 1_000
"""A count above it says no more than that there were many; the row's column and Avro's int end somewhere."""

COMMIT_TIME: Final = "cdc_source_ts_ms"
REPLAY: Final = "replay"
AGAIN: Final = "again"
REKEYED: Final = "rekeyed"
UNKNOWN_SCHEMA: Final = "unknown_schema"
"""Reason of bytes that a newer version wrote: the only one that passes by itself."""
TOO_LARGE: Final = "record_too_large"
NO_ROOM: Final = "it has to be put under its key, and is too large for the header that says so"
STILL_WRONG: Final = "key or partition is wrong after it was put right once: does another partitioner write?"

Headers = Sequence[tuple[str, bytes | None]]


class Event(msgspec.Struct, frozen=True, gc=False):
    """One inbound message that asks for an answer. Ids are lower-case canonical UUIDs."""

    key: bytes
    """What keeps a contact's events together: `organization_id:contact_id`."""
    event_id: str
    organization_id: str
    contact_id: str
    conversation_id: str
    session_id: str
    message_id: str
    offset: int
    time_ms: int
    """Commit time, absent: Kafka's timestamp; never later than the arrival (step 3, *Time*)."""
    replay: int = 0
    again: bool = False
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class InvalidPayload:
    """A row of ours whose payload is outside the contract: consumed without a job, never retried."""

    event_id: str
    organization_id: str
    replay: int
    attempts: int
    what: str
    """Which part is wrong; no content."""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Bytes that are no event of ours: a dead letter, with the bytes as they are."""

    reason: str
    """null_value, not_json, not_an_event, wrong_event_type, unknown_schema, bad_avro."""
    message: str


class Row(msgspec.Struct, gc=False):
    """A row of `event_log`, as far as it says what it is about; nothing is checked yet."""

    id: object = None
    organization_id: object = None
    event_type: object = None
    payload: object = None
    attempts: object = 0

    @property
    def attempts_so_far(self) -> int:
        """What `event_log.attempts` said when the event was published, within bounds."""
        attempts = self.attempts
        return min(attempts, MOST_ATTEMPTS) if type(attempts) is int and attempts > 0 else 0


class _Payload(msgspec.Struct, gc=False):
    conversation_id: object = None
    contact_id: object = None
    channel_session_id: object = None
    inbound_message_id: object = None


_OBJECT: Final = b"{"
"""How nearly every value begins: none of Avro's does."""
_row = msgspec.json.Decoder(Row)
_payload = msgspec.json.Decoder(_Payload)


def read_event(
    value: bytes | None, headers: Headers, timestamp_ms: int, arrival_ms: int, offset: int
) -> Event | InvalidPayload | Unreadable:
    """What a record of the source topic says. Times in ms since the epoch."""
    row = _decoded(value)
    if isinstance(row, Unreadable):
        return row
    payload = _read_payload(row.payload)
    marks = read_marks(headers)
    ids = _plain_ids(row, payload) or _checked_ids(row, payload, marks.replay)
    if not isinstance(ids, tuple):
        return ids
    event_id, organization_id, conversation_id, contact_id, session_id, message_id = ids
    return Event(
        f"{organization_id}:{contact_id}".encode(),
        event_id,
        organization_id,
        contact_id,
        conversation_id,
        session_id,
        message_id,
        offset,
        _time_ms(marks, timestamp_ms, arrival_ms),
        marks.replay,
        marks.again and marks.replay > 0,
        row.attempts_so_far,
    )


def event_time_ms(headers: Headers, timestamp_ms: int, arrival_ms: int) -> int:
    """The time of an event, whatever its bytes: commit, absent: Kafka's, never after the arrival (step 3)."""
    return _time_ms(read_marks(headers), timestamp_ms, arrival_ms)


def _time_ms(marks: Marks, timestamp_ms: int, arrival_ms: int) -> int:
    time_ms = marks.commit_ms if marks.commit_ms is not None else timestamp_ms
    return min(time_ms, arrival_ms) if time_ms > 0 else arrival_ms


def read_row(value: bytes | None, event_type: str) -> tuple[str, str, Row] | Unreadable:
    """The row of this type in a source record's value, JSON or Avro: its id, its organization's, and it."""
    row = _decoded(value)
    if isinstance(row, Unreadable):
        return row
    found = _checked_row(row, event_type)
    return found if isinstance(found, Unreadable) else (*found, row)


def _checked_row(row: Row, event_type: str) -> tuple[str, str] | Unreadable:
    event_id, organization_id = canonical_row_id(row.id), canonical_row_id(row.organization_id)
    if event_id is None or organization_id is None:
        return Unreadable("not_an_event", "the row has no uuid as id and organization_id")
    if row.event_type != event_type:
        return Unreadable("wrong_event_type", f"the row's event_type is not {event_type}")
    return event_id, organization_id


def _decoded(value: bytes | None) -> Row | Unreadable:
    if value is None:
        return Unreadable("null_value", "the record has no value")
    if not value.startswith(_OBJECT) and is_avro(value):
        try:
            return msgspec.convert(decode_event(value), Row)
        except UnknownSchema as error:
            return Unreadable("unknown_schema", str(error))
        except (Undecodable, msgspec.ValidationError) as error:
            return Unreadable("bad_avro", str(error))
    try:
        return _row.decode(value)
    except msgspec.ValidationError:
        return Unreadable("not_an_event", "the value is JSON but not an object")
    except RecursionError:
        row = _shallow(value.decode(errors="replace"), Row)
        return row or Unreadable("not_json", "the value is neither Avro nor JSON: its brackets don't match")
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        return Unreadable("not_json", f"the value is neither Avro nor JSON: {type(error).__name__}")


def _read_payload(payload: object) -> _Payload | str:
    """The payload, which CDC gives as JSON text and people as an object; a str says what is wrong."""
    try:
        if isinstance(payload, str):
            return _payload.decode(payload)
        if isinstance(payload, dict):
            return msgspec.convert(payload, _Payload)
    except RecursionError:
        found = _shallow(payload, _Payload) if isinstance(payload, str) else None
        return found or "payload is not a JSON object"
    except (msgspec.DecodeError, UnicodeError):
        return "payload is not a JSON object"
    return "payload is not a JSON object"


_Shallow = TypeVar("_Shallow", Row, _Payload)


def _shallow(text: str, kind: type[_Shallow]) -> _Shallow | None:
    """The object in a text that is nested too deep for a decoder: further keys of a payload may be.

    A member that is itself too deep stays a text; None: it is no object.
    """
    members = top_level(text)
    if members is None:
        return None
    told = kind()
    for name in kind.__struct_fields__:
        if name in members:
            setattr(told, name, _value(members[name]))
    return told


def _value(text: str) -> object:
    try:
        value: object = msgspec.json.decode(text)
    except RecursionError:
        return text
    except (msgspec.DecodeError, UnicodeError):
        return None
    return value


def read_payload(payload: object) -> dict[str, object] | str:
    """The whole payload of a row, as JSON text or as an object; a str says what is wrong."""
    try:
        if isinstance(payload, str):
            payload = msgspec.json.decode(payload)
    except RecursionError:
        return "payload is nested too deep"
    except (msgspec.DecodeError, UnicodeError):
        return "payload is not a JSON object"
    return payload if isinstance(payload, dict) else "payload is not a JSON object"


_Ids = tuple[str, str, str, str, str, str]
"""Of event, organization, conversation, contact, session and message."""


def _plain_ids(row: Row, payload: _Payload | str) -> _Ids | None:
    """The ids of an event in whose row and payload all of them are as they should be, which is told in one
    look; None: look closer."""
    if isinstance(payload, str) or row.event_type != EVENT_TYPE:
        return None
    given = (
        row.id,
        row.organization_id,
        payload.conversation_id,
        payload.contact_id,
        payload.channel_session_id,
        payload.inbound_message_id,
    )
    return cast("_Ids", given) if six_canonical(given) else None


def _checked_ids(row: Row, payload: _Payload | str, replay: int) -> _Ids | InvalidPayload | Unreadable:
    """The ids in canonical form, or what is wrong."""
    found = _checked_row(row, EVENT_TYPE)
    if isinstance(found, Unreadable):
        return found
    if isinstance(payload, str):
        return InvalidPayload(*found, replay, row.attempts_so_far, payload)
    conversation_id, contact_id = canonical_uuid(payload.conversation_id), canonical_uuid(payload.contact_id)
    session_id, message_id = (
        canonical_uuid(payload.channel_session_id),
        canonical_uuid(payload.inbound_message_id),
    )
    if conversation_id is None or contact_id is None or session_id is None or message_id is None:
        return InvalidPayload(*found, replay, row.attempts_so_far, _which_id(payload))
    return *found, conversation_id, contact_id, session_id, message_id


def _which_id(payload: _Payload) -> str:
    wrong = [name for name in _Payload.__struct_fields__ if canonical_uuid(getattr(payload, name)) is None]
    return f"not a uuid: {', '.join(wrong)}"


def was_rekeyed(headers: Headers) -> bool:
    """Whether a hand-produced record was put under its key before: that is done once (step 1)."""
    return any(name == REKEYED for name, _ in headers)


class Marks(msgspec.Struct, frozen=True, gc=False):
    """What the headers say; values that are no numbers count as absent."""

    commit_ms: int | None = None
    replay: int = 0
    again: bool = False


def read_marks(headers: Headers) -> Marks:
    """The marks in a source record's headers."""
    if not headers:
        return _UNMARKED
    commit_ms, replay, again = None, 0, False
    for name, raw in headers:
        if name == COMMIT_TIME:
            commit_ms = _number(raw)
        elif name == REPLAY:
            replay = _number(raw) or 0
        elif name == AGAIN:
            again = raw == b"1"
    return Marks(commit_ms, replay, again)


_UNMARKED: Final = Marks()
_LARGEST: Final = 2**53


def _number(raw: bytes | None) -> int | None:
    """Decimal digits as a number that JSON and Postgres hold exactly, else None."""
    if raw is None or not raw.isdigit() or len(raw) > 16:
        return None
    number = int(raw)
    return number if number < _LARGEST else None
