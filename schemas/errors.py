"""What can be wrong with the bytes of a record."""

from __future__ import annotations

from settings import RajadaError


class Undecodable(RajadaError):
    """Base of the errors below: these bytes give no record, and reading them again won't help."""


class NotAvro(Undecodable):
    """The bytes are not Avro in single-object encoding: something else than Rajada wrote this record."""

    def __init__(self) -> None:
        super().__init__(
            "not Avro in single-object encoding; something else than Rajada writes to this topic: "
            "find the producer, or read the record as JSON where the topic allows it"
        )


class UnknownSchema(Undecodable):
    """The record names a schema that this installation does not know, by its `fingerprint` (8 bytes)."""

    def __init__(self, fingerprint: bytes) -> None:
        self.fingerprint = fingerprint
        super().__init__(
            f"no committed schema has the fingerprint {fingerprint.hex()}; "
            "upgrade the readers before the writers, then requeue the record (docs/schemas.md)"
        )


class BadAvro(Undecodable):
    """The schema is known, the body does not fit it: cut off, trailing bytes, or another record."""

    def __init__(self, record: str, reason: str) -> None:
        super().__init__(f"not a {record}: {reason}; the bytes are broken, look at who wrote them")
