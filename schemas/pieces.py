"""Records written in pieces: what stands apart is put between the others' bytes as it is (pure).

Avro writes a record as its fields one after the other. So a job that travels in `dispatch.jobs` and inside
its outcome is encoded once; and lists of events, which are most of what a window's records hold, are written
here: fastavro looks up each field of each event by its name, which took half of all encoding
(docs/adr/avro-single-object.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import zip_longest
from typing import Final, cast

import fastavro

from schemas.history import Version, as_json
from schemas.records import EventOutcome, EventRef

NO_JOB: Final = b"\x00"
A_JOB: Final = b"\x02"
"""Branches of a union with null; the body follows the second."""

_SMALL: Final = [bytes([number << 1]) for number in range(64)]
_ZERO: Final = _SMALL[0]
_INT64: Final = 2**63


class Pieces:
    """Writes records of one version, some of whose fields come as bytes.

    Args:
        version: of the record.
        apart: names of those fields, in the order of the schema.
    """

    def __init__(self, version: Version, *apart: str) -> None:
        schema = as_json(version)
        parts: list[list[object]] = [[]]
        for field in cast("list[dict[str, object]]", schema["fields"]):
            if field["name"] in apart:
                parts.append([])
            else:
                parts[-1].append(field)
        self._parts = [
            fastavro.parse_schema({**schema, "fields": fields}, named_schemas={}) if fields else None
            for fields in parts
        ]

    def write(self, header: bytes, datum: Mapping[str, object], *apart: bytes) -> bytes:
        """Header and body; `apart`: the bytes of those fields.

        Raises ValueError or TypeError when the datum doesn't fit.
        """
        out = BytesIO()
        out.write(header)
        for part, between in zip_longest(self._parts, apart, fillvalue=b""):
            if part is not None:
                fastavro.schemaless_writer(out, part, datum)
            out.write(between)
        return out.getvalue()


def refs(events: Sequence[EventRef]) -> bytes:
    """An array of rajada.EventRef."""
    return _array([_text(one.event_id) + (_long(one.replay) if one.replay else _ZERO) for one in events])


def outcomes(events: Sequence[EventOutcome]) -> bytes:
    """An array of rajada.EventOutcome."""
    written: dict[tuple[int, int, int], bytes] = {}  # a window's events have the same numbers, nearly always
    items = []
    for one in events:
        numbers = (one.replay, one.seq, one.attempts)
        tail = written.get(numbers)
        if tail is None:
            tail = written[numbers] = b"".join(map(_long, numbers))
        items.append(_text(one.event_id) + tail)
    return _array(items)


def _array(items: Sequence[bytes]) -> bytes:
    return b"".join((_long(len(items)), *items, b"\x00")) if items else b"\x00"


def _text(text: str) -> bytes:
    raw = text.encode()
    return _long(len(raw)) + raw


def _long(number: int) -> bytes:
    """Zigzag, seven bits a byte, the lowest first."""
    if 0 <= number < 64:
        return _SMALL[number]
    if not -_INT64 <= number < _INT64:
        raise OverflowError(f"{number} has more than 64 bits")
    left = (number << 1) ^ (number >> 63)
    out = bytearray()
    while left > 0x7F:
        out.append(left & 0x7F | 0x80)
        left >>= 7
    out.append(left)
    return bytes(out)
