"""Every schema version that was ever written to a topic, read from `schemas/versions/<Name>/<n>.avsc`.

A record in Kafka names the schema it was written with by a fingerprint (Avro's single-object
encoding), so a reader needs all committed versions, not only the current one. How to add a version:
docs/schemas.md.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import avro.schema

_FOLDER = Path(__file__).parent

CURRENT_FILES = {
    "Job": "job.avsc",
    "Outcome": "outcome.avsc",
    "DispatchRequested": "event.avsc",
    "Command": "command.avsc",
}
"""Record name → the file that holds its current schema."""


@dataclass(frozen=True, slots=True)
class Version:
    """One committed version of one record's schema."""

    record: str
    number: int
    """1 for the first; the highest one is what writers use."""
    text: str
    """The .avsc file as it stands."""

    @property
    def fingerprint(self) -> bytes:
        """CRC-64-AVRO of the Parsing Canonical Form: 8 bytes, little-endian as on the wire."""
        return fingerprint(self.text)


def fingerprint(text: str) -> bytes:
    """CRC-64-AVRO of the Parsing Canonical Form of a schema given as JSON text; 8 bytes, little-endian."""
    return bytes(avro.schema.parse(text).fingerprint("CRC-64-AVRO"))


def current_text(record: str) -> str:
    """The current .avsc of a record, as text."""
    return (_FOLDER / CURRENT_FILES[record]).read_text(encoding="utf-8")


@cache
def versions(record: str) -> tuple[Version, ...]:
    """All committed versions of a record, oldest first."""
    found = [
        Version(record, int(path.stem), path.read_text(encoding="utf-8"))
        for path in (_FOLDER / "versions" / record).glob("*.avsc")
    ]
    return tuple(sorted(found, key=lambda version: version.number))


def as_json(version: Version) -> dict[str, object]:
    """A version's schema as parsed JSON."""
    parsed: dict[str, object] = json.loads(version.text)
    return parsed
