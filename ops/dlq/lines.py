"""Dead letters as JSON lines and back, byte for byte (pure).

Key, value and header values are text where they are UTF-8, else base64 under the name with `_base64`. null
is null. Of `place` only the topic is read back; `reason` and `about` are for people.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from schemas.dead import Header
from schemas.topic_names import DEAD
from streams.letters import Letter, place_of

LARGEST_BYTES: Final = 16 * 1024 * 1024
"""Of one line: twice what the largest letter takes as base64."""
_line = msgspec.json.Decoder(dict[str, object])
_encoder = msgspec.json.Encoder()


@dataclass(frozen=True, slots=True)
class Line:
    """A letter that was read; `at_ms` is when it died, Unix ms (0: nobody says)."""

    topic: str
    at_ms: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]

    @property
    def digest(self) -> bytes:
        """16 bytes that tell it from others."""
        return digest(self.at_ms, self.key, self.value, self.headers)


class WrongLine(ValueError):
    """A line that is no letter; the message says which part is wrong, without its content."""


def as_line(letter: Letter) -> bytes:
    """A letter as a line of JSON, without the line feed."""
    headers = [{"name": name, **_part("value", value)} for name, value in letter.headers]
    return _encoder.encode(
        {
            "place": str(letter.place),
            "reason": letter.reason,
            "about": letter.about,
            "timestamp": letter.at_ms,
            **_part("key", letter.key),
            **_part("value", letter.value),
            "headers": headers,
        }
    )


def of_line(text: bytes) -> Line:
    """The letter of a line; raises WrongLine."""
    if len(text) > LARGEST_BYTES:
        raise WrongLine(f"has {len(text):,} bytes, at most {LARGEST_BYTES:,} are read")
    try:
        told = _line.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        raise WrongLine("is not a JSON object") from None
    at_ms = told.get("timestamp", 0)
    if type(at_ms) is not int or not 0 <= at_ms < 2**53:
        raise WrongLine("timestamp is no number of Unix milliseconds")
    place = place_of(str(told.get("place", "")))
    headers = told.get("headers", [])
    if not isinstance(headers, list):
        raise WrongLine("headers is no list")
    return Line(
        topic=place.topic if place is not None else DEAD,
        at_ms=at_ms,
        key=_bytes(told, "key"),
        value=_bytes(told, "value"),
        headers=[_header(one) for one in headers],
    )


def digest(at_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> bytes:
    """16 bytes that tell a letter from others, by all that an export holds of it."""
    made = hashlib.blake2b(str(at_ms).encode(), digest_size=16)
    for part in (key, value, *(one for name, content in headers for one in (name.encode(), content))):
        made.update(b"-" if part is None else b"%d:" % len(part))
        made.update(part or b"")
    return made.digest()


def _part(name: str, value: bytes | None) -> dict[str, str | None]:
    if value is None:
        return {name: None}
    try:
        return {name: value.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(value).decode()}


def _header(told: object) -> Header:
    name = told.get("name") if isinstance(told, dict) else None
    if not isinstance(told, dict) or not isinstance(name, str):
        raise WrongLine("a header has no name")
    return name, _bytes(told, "value", f"header {name}: ")


def _bytes(told: Mapping[str, object], name: str, where: str = "") -> bytes | None:
    coded = f"{name}_base64"
    if name not in told and coded not in told:
        raise WrongLine(f"{where}{name} is missing (null is null)")
    if name in told and coded in told:
        raise WrongLine(f"{where}{name} is there twice, as text and as base64")
    value = told.get(name, told.get(coded))
    if name in told and value is None:
        return None
    if not isinstance(value, str):
        raise WrongLine(f"{where}{name} is no text")
    try:
        return value.encode() if name in told else base64.b64decode(value, validate=True)
    except (UnicodeEncodeError, binascii.Error, ValueError):
        what = "base64" if coded in told else "UTF-8"
        raise WrongLine(f"{where}{name} is no {what}") from None
