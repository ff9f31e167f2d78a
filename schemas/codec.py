"""Bytes on the topics ↔ typed records: Avro single-object encoding (design decision 10).

A record is `C3 01`, the 8-byte little-endian CRC-64-AVRO fingerprint of its writer's schema, and the
Avro body. Writers always use the newest committed version; readers resolve every committed one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TypeVar, cast

import fastavro
import msgspec
from msgspec import structs

from schemas.errors import BadAvro, NotAvro, UnknownSchema
from schemas.history import Version, as_json, versions
from schemas.records import Command, Job, Outcome

MAGIC = b"\xc3\x01"
"""First two bytes of Avro's single-object encoding; JSON text never starts with them."""
HEADER_BYTES = 10

RecordT = TypeVar("RecordT")

# What fastavro raises on bytes that do not fit a schema it knows.
_BODY_ERRORS = (EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, MemoryError)


def is_single_object(data: bytes) -> bool:
    """Whether the bytes start as an Avro single object (else they are taken for JSON)."""
    return len(data) >= HEADER_BYTES and data.startswith(MAGIC)


class _Line:
    """All committed versions of one record: the newest writes, every one is read."""

    def __init__(self, record: str, committed: Sequence[Version]) -> None:
        self.record = record
        self._writer = fastavro.parse_schema(as_json(committed[-1]))
        self._header = MAGIC + committed[-1].fingerprint
        # No reader schema for the newest version: resolution is needed for older writers only.
        self._readers = {
            version.fingerprint: (fastavro.parse_schema(as_json(version)), self._writer)
            for version in committed[:-1]
        }
        self._readers[committed[-1].fingerprint] = (self._writer, None)

    def encode(self, datum: Mapping[str, object]) -> bytes:
        """Header and body; ValueError or TypeError when the datum does not fit the schema."""
        out = BytesIO()
        out.write(self._header)
        fastavro.schemaless_writer(out, self._writer, datum)
        return out.getvalue()

    def decode(self, data: bytes) -> dict[str, object]:
        """The record as a plain dict in the newest version's shape."""
        if not is_single_object(data):
            raise NotAvro
        known = self._readers.get(data[2:HEADER_BYTES])
        if known is None:
            raise self._stranger(data[2:HEADER_BYTES])
        body = BytesIO(data)
        body.seek(HEADER_BYTES)
        try:
            datum: dict[str, object] = fastavro.schemaless_reader(body, *known)
        except _BODY_ERRORS as error:
            raise BadAvro(self.record, f"{type(error).__name__} in the body") from error
        if body.tell() != len(data):
            raise BadAvro(self.record, f"{len(data) - body.tell()} bytes after its end")
        return datum

    def _stranger(self, fingerprint: bytes) -> UnknownSchema | BadAvro:
        for line in _LINES:
            if fingerprint in line._readers:
                return BadAvro(self.record, f"it is a {line.record}")
        return UnknownSchema(fingerprint)


_LINES = tuple(
    _Line(record, versions(record)) for record in ("Job", "Outcome", "DispatchRequested", "Command")
)
_JOB, _OUTCOME, _EVENT, _COMMAND = _LINES


def record_name(data: bytes) -> str | None:
    """Which of our records these bytes say they are, by their schema's fingerprint; None: none of ours."""
    if is_single_object(data):
        for line in _LINES:
            if data[2:HEADER_BYTES] in line._readers:
                return line.record
    return None


def _typed(line: _Line, record_type: type[RecordT], data: bytes) -> RecordT:
    try:
        return msgspec.convert(line.decode(data), record_type)
    except msgspec.ValidationError as error:
        raise BadAvro(line.record, str(error)) from error


def encode_job(job: Job) -> bytes:
    """A job as bytes for `dispatch.jobs`."""
    return _JOB.encode(msgspec.to_builtins(job))


def decode_job(data: bytes) -> Job:
    """A job from bytes; NotAvro, UnknownSchema or BadAvro when they are none."""
    return _typed(_JOB, Job, data)


class _AroundTheJob:
    """Writes outcomes in three pieces, so that the job in the middle is encoded once.

    A window's job travels in `dispatch.jobs` and inside its outcome. Avro writes a record as its fields one
    after the other, so the job's body can be put between what stands before and after it.
    """

    _NO_JOB = b"\x00"
    _A_JOB = b"\x02"  # second branch of the union

    def __init__(self, newest: Version) -> None:
        schema = as_json(newest)
        fields = cast("list[dict[str, object]]", schema["fields"])
        place = [field["name"] for field in fields].index("job")
        self._header = MAGIC + newest.fingerprint
        self._before = fastavro.parse_schema({**schema, "fields": fields[:place]}, named_schemas={})
        self._after = fastavro.parse_schema({**schema, "fields": fields[place + 1 :]}, named_schemas={})

    def encode(self, outcome: Outcome, job: bytes | None) -> bytes:
        """The whole record; `job` is the single object of the outcome's job."""
        out = BytesIO()
        out.write(self._header)
        datum = structs.asdict(outcome)
        datum["events"] = [structs.asdict(event) for event in outcome.events]
        fastavro.schemaless_writer(out, self._before, datum)
        if job is None:
            out.write(self._NO_JOB)
        else:
            out.write(self._A_JOB)
            out.write(memoryview(job)[HEADER_BYTES:])
        if outcome.alert is not None:
            datum["alert"] = ("rajada.Alert", structs.asdict(outcome.alert))
        fastavro.schemaless_writer(out, self._after, datum)
        return out.getvalue()


_AROUND = _AroundTheJob(versions("Outcome")[-1])


def encode_outcome(outcome: Outcome, job: bytes | None = None) -> bytes:
    """An outcome as bytes for `dispatch.outcomes`; `job` is what `encode_job` gave for its job, if known."""
    if outcome.job is not None and job is None:
        job = encode_job(outcome.job)
    return _AROUND.encode(outcome, job if outcome.job is not None else None)


def decode_outcome(data: bytes) -> Outcome:
    """An outcome from bytes; NotAvro, UnknownSchema or BadAvro when they are none."""
    return _typed(_OUTCOME, Outcome, data)


def encode_event(row: Mapping[str, object]) -> bytes:
    """A source event as bytes, from the flat `event_log` row (`payload` and `metadata` as JSON text)."""
    return _EVENT.encode(row)


def decode_event(data: bytes) -> dict[str, object]:
    """A source event as the same dict that the JSON of the CDC row gives; errors as `decode_job`."""
    return _EVENT.decode(data)


def encode_command(command: Command) -> bytes:
    """A command as bytes for `dispatch.control`."""
    return _COMMAND.encode(structs.asdict(command))


def decode_command(data: bytes) -> Command:
    """A command from bytes; NotAvro, UnknownSchema or BadAvro when they are none."""
    return _typed(_COMMAND, Command, data)
