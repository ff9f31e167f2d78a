"""A dead letter as people look for it: its place, what its headers tell, and what its bytes are (pure).

The bytes may be anything, since that is how many a record came to be here: nothing in this module raises on
any of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from schemas.codec import decode_command, decode_event, decode_job, decode_outcome, record_name
from schemas.dead import LEFT_OUT, REPLAY, Header, replays_of
from schemas.errors import Undecodable
from schemas.records import Command, Job, Outcome
from schemas.topic_names import DEAD, PARKING
from streams.identifiers import canonical_row_id

UNREADABLE: Final = "unreadable"
"""Kind of a letter whose bytes are none of our records."""
OUTCOME: Final = "outcome"
COMMAND: Final = "command"

ERASED: Final = "erased"
"""Header of a letter whose content was erased for its contact's sake (`rajada forget`)."""
TRUNCATED: Final = "truncated"
"""Header of a letter that was too large to be kept whole; the event's row has it all."""

_SHORT: Final = {"dead": DEAD, "parking": PARKING}
_LONGEST_NUMBER: Final = 18


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a letter lies; `topic` without prefix."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        """As people write it: dead/3/17."""
        short = next((name for name, topic in _SHORT.items() if topic == self.topic), self.topic)
        return f"{short}/{self.partition}/{self.offset}"


def place_of(text: str) -> Place | None:
    """The place that a text names (dead/3/17, parking/0/5, dispatch.dead/3/17), else None."""
    topic, _, rest = text.strip().partition("/")
    partition, _, offset = rest.partition("/")
    full = _SHORT.get(topic, topic)
    if full not in (DEAD, PARKING) or not _is_number(partition) or not _is_number(offset):
        return None
    return Place(full, int(partition), int(offset))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER


@dataclass(frozen=True, slots=True)
class Content:
    """What a letter's bytes are."""

    kind: str
    """The event's type, the job's kind, `outcome`, `command`, or `unreadable`."""
    organization_id: str | None = None
    record: Job | Outcome | Command | Mapping[str, object] | None = None
    """The decoded record; an event as its row. None: unreadable."""


@dataclass(frozen=True)
class Letter:
    """One record of `dispatch.dead` or `dispatch.parking`; times in Unix ms."""

    place: Place
    at_ms: int
    """When it died."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]

    @cached_property
    def told(self) -> Mapping[str, str]:
        """The headers as text; of several of one name the last."""
        return {name: (value or b"").decode(errors="replace") for name, value in self.headers}

    @cached_property
    def reason(self) -> str:
        """Why it died, by name."""
        return self.told.get("reason") or "unknown"

    @property
    def stage(self) -> str:
        """Where it died."""
        return self.told.get("stage") or "unknown"

    @property
    def message(self) -> str:
        """The error's text, masked when it was written."""
        return self.told.get("kafka_dlt-exception-message", "")

    @property
    def origin(self) -> str:
        """Full name of the topic it was in when it died first; empty when nobody wrote it down."""
        return self.told.get("kafka_dlt-original-topic", "")

    @property
    def origin_ms(self) -> int | None:
        """The timestamp of the original record."""
        return _number(self.told.get("kafka_dlt-original-timestamp"))

    @property
    def attempt(self) -> int | None:
        """How many attempts it had."""
        return _number(self.told.get("attempt"))

    @property
    def replay(self) -> int:
        """The number of the run that sent it last; 0 = it is the original."""
        return _number(self.told.get(REPLAY)) or 0

    @cached_property
    def replays(self) -> int:
        """How often it was requeued before."""
        return replays_of(self.headers)

    @property
    def is_original(self) -> bool:
        """Whether the bytes are those that died; else they were cut, left out or erased."""
        return not {ERASED, TRUNCATED, LEFT_OUT} & self.told.keys()

    @cached_property
    def job_id(self) -> str | None:
        """The job that it is about."""
        told = canonical_row_id(self.told.get("job-id"))
        if told is not None:
            return told
        record = self.content.record
        return record.id if isinstance(record, Job) else None

    @cached_property
    def event_id(self) -> str | None:
        """The event that it is about; of unreadable bytes the id that was made for them."""
        for name in ("event-id", "event_id"):
            told = canonical_row_id(self.told.get(name))
            if told is not None:
                return told
        record = self.content.record
        return canonical_row_id(record.get("id")) if isinstance(record, Mapping) else None

    @cached_property
    def about(self) -> str | None:
        """The job, else the event, that it is about."""
        return self.job_id or self.event_id

    @cached_property
    def organization_id(self) -> str | None:
        """Whose it is: as the bytes say, else as the key does."""
        if self.content.organization_id is not None:
            return self.content.organization_id
        return canonical_row_id((self.key or b"").partition(b":")[0].decode(errors="replace"))

    @property
    def kind(self) -> str:
        """What it is: see `Content.kind`."""
        return self.content.kind

    @cached_property
    def content(self) -> Content:
        """What its bytes are."""
        return read_content(self.value)


_row = msgspec.json.Decoder(dict[str, object])
_NOTHING: Final = Content(UNREADABLE)


def read_content(value: bytes | None) -> Content:
    """What these bytes are."""
    if value is None:
        return _NOTHING
    match record_name(value):
        case "Job":
            return _of_job(value)
        case "Outcome":
            return _of_outcome(value)
        case "Command":
            return _of_command(value)
        case "DispatchRequested":
            return _of_avro_event(value)
        case _:
            return _of_json(value)


def _of_job(value: bytes) -> Content:
    try:
        job = decode_job(value)
    except Undecodable:
        return _NOTHING
    return Content(job.kind, canonical_row_id(job.organization_id), job)


def _of_outcome(value: bytes) -> Content:
    try:
        outcome = decode_outcome(value)
    except Undecodable:
        return _NOTHING
    return Content(OUTCOME, canonical_row_id(outcome.organization_id), outcome)


def _of_command(value: bytes) -> Content:
    try:
        command = decode_command(value)
    except Undecodable:
        return _NOTHING
    return Content(COMMAND, canonical_row_id(command.organization_id), command)


def _of_avro_event(value: bytes) -> Content:
    try:
        return _of_row(decode_event(value))
    except Undecodable:
        return _NOTHING


def _of_json(value: bytes) -> Content:
    try:
        return _of_row(_row.decode(value))
    except (msgspec.DecodeError, ValueError, RecursionError):
        return _NOTHING


def _of_row(row: Mapping[str, object]) -> Content:
    event_type = row.get("event_type")
    if not isinstance(event_type, str) or not event_type or canonical_row_id(row.get("id")) is None:
        return _NOTHING
    return Content(event_type, canonical_row_id(row.get("organization_id")), row)


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and _is_number(text) else None
