"""Our records as bytes, field by field, as their schema says (pure).

Avro writes a record as its fields one after the other. So a job that travels in `dispatch.jobs` and inside
its outcome is encoded once, and put between the others' bytes as it is. Texts and numbers, which are nearly
all of it, are written here, by writers that are made from the schema. What else a schema has is left to
fastavro: it begins anew for each part of a record, and looks up each field of each event by its name
(docs/adr/avro-single-object.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from typing import Any, Final, cast

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
        fields = cast("list[dict[str, object]]", as_json(version)["fields"])
        self._fields = [
            (str(field["name"]), None if field["name"] in apart else _writer(field["type"]))
            for field in fields
        ]

    def write(self, header: bytes, datum: Mapping[str, object], *apart: bytes) -> bytes:
        """Header and body; `apart`: the bytes of those fields.

        Raises TypeError or OverflowError when the datum doesn't fit.
        """
        given = iter(apart)
        return header + b"".join(
            [next(given) if write is None else write(datum[name]) for name, write in self._fields]
        )


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
    try:
        raw = text.encode()
    except AttributeError:
        raise TypeError(f"{text!r} is no text") from None
    size = len(raw)
    return (_SMALL[size] if size < 64 else _long(size)) + raw


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


_Writer = Callable[[Any], bytes]
_WRITERS: Final[dict[object, _Writer]] = {"string": _text, "long": _long, "int": _long}


def _writer(type_: object) -> _Writer:
    """What writes values of an Avro type."""
    if isinstance(type_, str) and type_ in _WRITERS:
        return _WRITERS[type_]
    if isinstance(type_, list) and len(type_) == 2 and type_[0] == "null":
        other = _writer(type_[1])
        return lambda value: b"\x00" if value is None else b"\x02" + other(value)
    whole = fastavro.parse_schema(type_, named_schemas={})

    def write(value: object) -> bytes:
        out = BytesIO()
        fastavro.schemaless_writer(out, whole, value)
        return out.getvalue()

    return write
