"""Fencing tokens of changelog records: what a replaced worker writes late is ignored by every later reader.

Each record of a table's changelog carries (epoch, generation) in a header, tombstones too. The generation is
the consumer group's, in which the writer was assigned the partition. It only grows while the group lives;
when a group was deleted and begins anew, the epoch is raised instead. Before its first batch an owner writes
a *marker* with its token, so in a partition's order everything behind the marker with a lower token is a late
write of a replaced owner. Pure.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

HEADER = "token"
"""Name of the header."""
MARKER = b"\x00token"
"""Key of the markers; readers of a changelog skip it."""

_FORMAT = struct.Struct(">II")


class Token(NamedTuple):
    """Who wrote a record; tokens compare as tuples, and so do their encodings as bytes."""

    epoch: int
    generation: int

    def encode(self) -> bytes:
        """The header's value: two unsigned 32-bit numbers, big-endian."""
        return _FORMAT.pack(*self)

    @classmethod
    def decode(cls, value: bytes) -> Token:
        """The inverse of `encode`."""
        return cls(*_FORMAT.unpack(value))


def token_of(headers: Iterable[tuple[str, bytes | None]] | None) -> bytes | None:
    """The encoded token in a record's headers; None when a tool wrote it without one."""
    for name, value in headers or ():
        if name == HEADER and value is not None and len(value) == _FORMAT.size:
            return value
    return None


def succeed(highest: bytes | None, generation: int) -> Token:
    """The token of an owner assigned in `generation` that has read the changelog up to the token `highest`.

    A token of our generation or a later one means that the group began anew since, provided that the
    coordinator has confirmed our generation after the reading: then the epoch is raised.
    """
    if highest is None:
        return Token(0, generation)
    epoch, last = Token.decode(highest)
    return Token(epoch if generation > last else epoch + 1, generation)


class Reader:
    """Tells late writes apart while a changelog partition is read in order, from any offset on."""

    __slots__ = ("highest",)

    def __init__(self) -> None:
        self.highest: bytes | None = None
        """The highest token read so far, encoded."""

    def accepts(self, headers: Iterable[tuple[str, bytes | None]] | None) -> bool:
        """Whether the next record counts: its token isn't lower than one before it."""
        token = token_of(headers)
        if token is None:
            return True
        if self.highest is not None and token < self.highest:
            return False
        self.highest = token
        return True
