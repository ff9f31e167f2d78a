"""Bytes on the topics ↔ typed records: Avro, single objects or Confluent's wire format (decision 10).

A single object is `C3 01`, the 8-byte little-endian CRC-64-AVRO fingerprint of its writer's schema, and the
Avro body; with a registry in use (`schemas.framing`) writers put a zero byte and the schema's id before it
instead. Readers tell both apart by the first bytes, always. Writers use the newest committed version; readers
resolve every committed one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import TypeVar

import fastavro
import msgspec
from msgspec import structs

from schemas import framing
from schemas.errors import BadAvro, NotAvro, UnknownSchema
from schemas.foreign import foreign_schema
from schemas.framing import FRAME_BYTES, ZERO
from schemas.history import Version, as_json, fingerprint, versions
from schemas.pieces import A_JOB, NO_JOB, Pieces, outcomes, refs
from schemas.records import Command, Job, Outcome
from settings import RajadaError

MAGIC = b"\xc3\x01"
"""First two bytes of Avro's single-object encoding; JSON text never starts with them."""
HEADER_BYTES = 10

RecordT = TypeVar("RecordT")

# What fastavro raises on bytes that do not fit a schema it knows.
_BODY_ERRORS = (EOFError, IndexError, KeyError, ValueError, TypeError, OverflowError, MemoryError)


def is_single_object(data: bytes) -> bool:
    """Whether the bytes start as an Avro single object."""
    return len(data) >= HEADER_BYTES and data.startswith(MAGIC)


def is_avro(data: bytes) -> bool:
    """Whether the bytes start as Avro in either form (else they are taken for JSON)."""
    return is_single_object(data) or (len(data) >= FRAME_BYTES and data.startswith(ZERO))


def _header_of(data: bytes) -> bytes:
    """What stands before the body; raises NotAvro."""
    if is_single_object(data):
        return data[:HEADER_BYTES]
    if len(data) >= FRAME_BYTES and data.startswith(ZERO):
        return data[:FRAME_BYTES]
    raise NotAvro


class _Line:
    """All committed versions of one record: the newest writes, every one is read."""

    def __init__(self, record: str, committed: Sequence[Version]) -> None:
        self.record = record
        self.alone = MAGIC + committed[-1].fingerprint
        """The header of a single object."""
        self._writer = fastavro.parse_schema(as_json(committed[-1]))
        # No reader schema for the newest version: resolution is needed for older writers only.
        self.readers: dict[bytes, tuple[object, object]] = {
            MAGIC + version.fingerprint: (fastavro.parse_schema(as_json(version)), self._writer)
            for version in committed[:-1]
        }
        """By header; ids of a registry join the fingerprints as they are met."""
        self.readers[self.alone] = (self._writer, None)
        self._header = b""

    def header(self) -> bytes:
        """What is written before the body; the registry in use is asked once. Raises RajadaError."""
        return self._header or self._agreed()

    def _agreed(self) -> bytes:
        registry = framing.ids()
        header = self.alone
        if registry is not None:
            header = framing.frame(registry.id_of(self.record))
            self.readers[header] = self.readers[self.alone]
        self._header = header
        return header

    def forget_ids(self) -> None:
        """Ids are one registry's own: another one is asked from now on, or none."""
        self._header = b""
        for header in [header for header in self.readers if header.startswith(ZERO)]:
            del self.readers[header]

    def encode(self, datum: Mapping[str, object]) -> bytes:
        """Header and body; ValueError or TypeError when the datum does not fit the schema."""
        out = BytesIO()
        out.write(self.header())
        fastavro.schemaless_writer(out, self._writer, datum)
        return out.getvalue()

    def decode(self, data: bytes) -> dict[str, object]:
        """The record as a plain dict in the newest version's shape."""
        header = _header_of(data)
        known = self.readers.get(header)
        if known is None:
            known = self._met(header)
        body = BytesIO(data)
        body.seek(len(header))
        try:
            datum: dict[str, object] = fastavro.schemaless_reader(body, *known)
        except _BODY_ERRORS as error:
            raise BadAvro(self.record, f"{type(error).__name__} in the body") from error
        if body.tell() != len(data):
            raise BadAvro(self.record, f"{len(data) - body.tell()} bytes after its end")
        return datum

    def _met(self, header: bytes) -> tuple[object, object]:
        """How to read what a header says that this line doesn't know yet; raises UnknownSchema or BadAvro."""
        line = _line_of(header)
        if line is not None and line is not self:
            raise BadAvro(self.record, f"it is a {line.record}")
        if line is None and header.startswith(ZERO):
            line = _resolve(header, self)
        if line is None:
            raise UnknownSchema(header)
        return self.readers[header]


def _line_of(header: bytes) -> _Line | None:
    return next((line for line in _LINES if header in line.readers), None)


def _resolve(header: bytes, wanted: _Line) -> _Line:
    """Learn an id from the registry; gives `wanted`, or raises UnknownSchema or BadAvro.

    Only an event's schema may be somebody else's: it is read as that one says, like a JSON row. A version of
    our other records that isn't committed here is a newer one's, with fields that would be lost.
    """
    registry = framing.ids()
    if registry is None:
        raise UnknownSchema(header, "no registry is named here (SCHEMA_REGISTRY_URL)")
    try:
        text = registry.schema_of(int.from_bytes(header[1:], "big"))
    except RajadaError as error:
        raise UnknownSchema(header, str(error)) from error
    try:
        known = _line_of(MAGIC + fingerprint(text))
        foreign = None if known is not None else foreign_schema(text)
    except Exception as error:  # whatever the two libraries raise at what is no Avro schema
        raise UnknownSchema(header, f"what the registry has for it is no Avro schema: {error!r}") from error
    if known is not None:
        known.readers[header] = known.readers[MAGIC + fingerprint(text)]
        if known is not wanted:
            raise BadAvro(wanted.record, f"it is a {known.record}")
    elif wanted is _EVENT:
        wanted.readers[header] = (foreign, None)
    else:
        raise UnknownSchema(header, f"it is a {wanted.record} of a version that is not committed here")
    return wanted


_LINES = tuple(
    _Line(record, versions(record)) for record in ("Job", "Outcome", "DispatchRequested", "Command")
)
_JOB, _OUTCOME, _EVENT, _COMMAND = _LINES
_JOB_PIECES = Pieces(versions("Job")[-1], "events")
_OUTCOME_PIECES = Pieces(versions("Outcome")[-1], "events", "job")
for _line in _LINES:
    framing.on_change(_line.forget_ids)


def settle() -> None:
    """Ask the registry, if one is in use, for the ids of what this process writes, before it reads anything.

    Raises RajadaError when an id can't be told: a process that could not write must not start.
    """
    for line in (_JOB, _OUTCOME, _COMMAND):
        line.header()


def self_contained(data: bytes) -> bytes:
    """The same record as a single object, which is readable without a registry; for what we keep ourselves.

    `data` is a record that was decoded; anything else comes back as it is.
    """
    if data.startswith(ZERO):
        line = _line_of(data[:FRAME_BYTES])
        if line is not None:
            schema = line.readers[data[:FRAME_BYTES]]
            for header, known in line.readers.items():
                if known is schema and header.startswith(MAGIC):
                    return header + data[FRAME_BYTES:]
    return data


def record_name(data: bytes) -> str | None:
    """Which of our records these bytes say they are, by their schema; None: none of ours that is known."""
    if not is_avro(data):
        return None
    header = _header_of(data)
    line = _line_of(header)
    if line is None and header.startswith(ZERO):
        try:
            line = _resolve(header, _EVENT)
        except BadAvro:
            line = _line_of(header)
        except UnknownSchema:
            return None
    return line.record if line is not None else None


def is_job(data: bytes) -> bool:
    """Whether the bytes say that they are a job of a version that is known here; the body isn't looked at."""
    return data[:HEADER_BYTES] in _JOB.readers or record_name(data) == "Job"


def _typed(line: _Line, record_type: type[RecordT], data: bytes) -> RecordT:
    try:
        return msgspec.convert(line.decode(data), record_type)
    except msgspec.ValidationError as error:
        raise BadAvro(line.record, str(error)) from error


def encode_job(job: Job) -> bytes:
    """A job as bytes for `dispatch.jobs`."""
    return _JOB_PIECES.write(_JOB.header(), structs.asdict(job), refs(job.events))


def decode_job(data: bytes) -> Job:
    """A job from bytes; NotAvro, UnknownSchema or BadAvro when they are none."""
    return _typed(_JOB, Job, data)


def encode_outcome(outcome: Outcome, job: bytes | None = None) -> bytes:
    """An outcome as bytes for `dispatch.outcomes`; `job` is what `encode_job` gave for its job, if known."""
    datum = structs.asdict(outcome)
    if outcome.alert is not None:
        datum["alert"] = structs.asdict(outcome.alert)
    inner = NO_JOB
    if outcome.job is not None:
        whole = encode_job(outcome.job) if job is None else job
        inner = A_JOB + whole[len(_header_of(whole)) :]
    return _OUTCOME_PIECES.write(_OUTCOME.header(), datum, outcomes(outcome.events), inner)


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
