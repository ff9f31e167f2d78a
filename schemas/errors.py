"""What can be wrong with the bytes of a record."""

from __future__ import annotations

from settings import RajadaError


class Undecodable(RajadaError):
    """Base of the errors below: these bytes give no record, and reading them again won't help."""


class NotAvro(Undecodable):
    """The bytes are Avro in no form of ours: something else than Rajada wrote this record."""

    def __init__(self) -> None:
        super().__init__(
            "not Avro, neither a single object nor in Confluent's wire format; something else than Rajada "
            "writes to this topic: find the producer, or read the record as JSON where the topic allows it"
        )


class UnknownSchema(Undecodable):
    """The record names a schema that can't be told here: by its fingerprint, or by a registry's id.

    `header` is what stands before the body: `C3 01` and 8 bytes of fingerprint, or a zero byte and 4 of the
    id; `why` says why an id could not be resolved.
    """

    def __init__(self, header: bytes, why: str = "") -> None:
        self.header = header
        if header.startswith(b"\x00"):
            told = f"the schema with the id {int.from_bytes(header[1:5], 'big')} is not known: {why}; "
        else:
            told = f"no committed schema has the fingerprint {header[2:].hex()}; "
        super().__init__(
            told + "upgrade the readers before the writers, then requeue the record (docs/schemas.md)"
        )


class BadAvro(Undecodable):
    """The schema is known, the body does not fit it: cut off, trailing bytes, or another record."""

    def __init__(self, record: str, reason: str) -> None:
        super().__init__(f"not a {record}: {reason}; the bytes are broken, look at who wrote them")
