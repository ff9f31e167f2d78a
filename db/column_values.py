"""Postgres' text form of a column → the JSON value that Debezium's chain gives for it. Pure.

Held to records that Debezium 3.6.1 produced for the same rows (tests/unit/db). Types that the event
log doesn't have and whose form would need more than text (interval, money, timetz, ranges, own types)
stay as Postgres writes them. The session must speak `SESSION` for the text to be unambiguous.
"""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime
from typing import Final

JsonValue = None | bool | int | float | str | list["JsonValue"]
Reader = Callable[[str], JsonValue]
Elements = list["str | Elements | None"]
"""An array's elements as text; arrays nest, None = NULL."""

SESSION: Final[dict[str, str]] = {
    "timezone": "UTC",
    "datestyle": "ISO,YMD",
    "bytea_output": "hex",
    "extra_float_digits": "1",
    "client_encoding": "UTF8",
}
"""Settings of the session whose text is read here."""

_MICROSECONDS: Final = 6
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


def reader(type_oid: int, typmod: int = -1) -> Reader:
    """The function that turns the text of a column of this type into its JSON value.

    Args:
        type_oid: oid of the column's type (pg_type).
        typmod: its modifier; for times the number of digits after the second, -1 = six.
    """
    if type_oid in _ARRAYS:
        return _array_reader(reader(_ARRAYS[type_oid], typmod))
    digits = typmod if 0 <= typmod <= _MICROSECONDS else _MICROSECONDS
    if type_oid == _TIMESTAMPTZ:
        return lambda text: _instant(text, digits)
    if type_oid == _TIMESTAMP:
        return lambda text: _local(text, digits)
    if type_oid == _TIME:
        return lambda text: _time_of_day(text, digits)
    return _READERS.get(type_oid, str)


def parse_array(text: str) -> Elements:
    """Postgres' array text (`{a,"b c",NULL,{…}}`) as nested lists; elements stay text.

    Raises:
        ValueError: not an array's text.
    """
    start = text.find("{")
    # Bounds other than 1 stand before the braces: `[0:1]={a,b}`.
    if start == -1 or (start > 0 and text[start - 1] != "="):
        raise ValueError("not the text of an array")
    items, end = _array_at(text, start)
    if end != len(text):
        raise ValueError("text after the end of the array")
    return items


def _array_at(text: str, at: int) -> tuple[Elements, int]:
    items: Elements = []
    at += 1
    while True:
        if at >= len(text):
            raise ValueError("the array does not end")
        mark = text[at]
        if mark == "}":
            return items, at + 1
        if mark == ",":
            at += 1
        elif mark == "{":
            inner, at = _array_at(text, at)
            items.append(inner)
        elif mark == '"':
            quoted, at = _quoted_at(text, at + 1)
            items.append(quoted)
        else:
            end = at
            while end < len(text) and text[end] not in ",}":
                end += 1
            bare = text[at:end]
            items.append(None if bare.upper() == "NULL" else bare)
            at = end


def _quoted_at(text: str, at: int) -> tuple[str, int]:
    out: list[str] = []
    while True:
        if at >= len(text):
            raise ValueError("a quoted element does not end")
        mark = text[at]
        if mark == '"':
            return "".join(out), at + 1
        if mark == "\\":
            at += 1
            if at >= len(text):
                raise ValueError("a quoted element does not end")
            mark = text[at]
        out.append(mark)
        at += 1


def _array_reader(element: Reader) -> Reader:
    def values(items: Elements) -> JsonValue:
        return [
            None if item is None else element(item) if isinstance(item, str) else values(item)
            for item in items
        ]

    return lambda text: values(parse_array(text))


def _boolean(text: str) -> JsonValue:
    return text == "t"


def _float(text: str) -> JsonValue:
    number = float(text)
    # JSON has no NaN and no infinities: they travel as text, in Postgres' own spelling.
    return number if math.isfinite(number) else text


def _bytes(text: str) -> JsonValue:
    return b64encode(bytes.fromhex(text.removeprefix("\\x"))).decode()


def _day(text: str) -> JsonValue:
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH_DAY
    except ValueError:  # infinity, before Christ, after the year 9999
        return text


def _instant(text: str, digits: int) -> JsonValue:
    """`2024-01-02 03:04:05.1+00` → `2024-01-02T03:04:05.100000Z`; infinities as they are."""
    if not text.endswith("+00"):
        return text
    day, _, clock = text[:-3].partition(" ")
    second, _, fraction = clock.partition(".")
    return f"{day}T{second}.{fraction:0<{digits}}Z" if digits else f"{day}T{second}Z"


def _local(text: str, digits: int) -> JsonValue:
    """A time without zone: milliseconds since 1970 up to three digits, microseconds above."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # infinity, before Christ, after the year 9999
        return text
    days = moment.toordinal() - _EPOCH_DAY
    micros = days * 86_400_000_000 + _micros(moment.hour, moment.minute, moment.second, moment.microsecond)
    return micros // 1000 if digits <= 3 else micros


def _time_of_day(text: str, digits: int) -> JsonValue:
    clock, _, fraction = text.partition(".")
    hour, minute, second = (int(part) for part in clock.split(":"))
    micros = _micros(hour, minute, second, int(f"{fraction:0<6}"))
    return micros // 1000 if digits <= 3 else micros


def _micros(hour: int, minute: int, second: int, micros: int) -> int:
    return ((hour * 60 + minute) * 60 + second) * 1_000_000 + micros


_TIME: Final = 1083
_TIMESTAMP: Final = 1114
_TIMESTAMPTZ: Final = 1184

_READERS: Final[dict[int, Reader]] = {
    16: _boolean,
    17: _bytes,
    20: int,  # int8
    21: int,  # int2
    23: int,  # int4
    26: int,  # oid
    700: _float,
    701: _float,
    1082: _day,
}

_ARRAYS: Final[dict[int, int]] = {
    1000: 16,  # bool[]
    1001: 17,  # bytea[]
    1005: 21,  # int2[]
    1007: 23,  # int4[]
    1016: 20,  # int8[]
    1021: 700,  # float4[]
    1022: 701,  # float8[]
    1009: 25,  # text[]
    1014: 1042,  # char(n)[]
    1015: 1043,  # varchar[]
    199: 114,  # json[]
    3807: 3802,  # jsonb[]
    2951: 2950,  # uuid[]
    1115: _TIMESTAMP,
    1182: 1082,  # date[]
    1183: _TIME,
    1185: _TIMESTAMPTZ,
    1231: 1700,  # numeric[]
}
