"""The values of one partition: what was read from a changelog stays encoded until somebody uses it. Pure.

A decoded value weighs three times its bytes or more, and a recovery would spend half of its time on making
them: of a million keys that come back after a restart, most wait long for their turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

V = TypeVar("V")


class Values(Generic[V]):
    """Keys with their values. Whatever decodes raises what the decoder raises, and leaves all as it is."""

    __slots__ = ("_decode", "_encoded", "_used")

    def __init__(self, decode: Callable[[bytes], V], encoded: dict[bytes, bytes] | None = None) -> None:
        self._decode = decode
        self._encoded: dict[bytes, bytes] = {} if encoded is None else encoded
        self._used: dict[bytes, V] = {}

    def get(self, key: bytes) -> V | None:
        """The value: from now on this very object, whoever asks."""
        value = self._used.get(key)
        if value is None and (encoded := self._encoded.get(key)) is not None:
            value = self._used[key] = self._decode(encoded)
            del self._encoded[key]
        return value

    def peek(self, key: bytes) -> V | None:
        """The value, to look at only: one that nobody has used yet is decoded for this call alone."""
        value = self._used.get(key)
        if value is None and (encoded := self._encoded.get(key)) is not None:
            return self._decode(encoded)
        return value

    def put(self, key: bytes, value: V | None) -> None:
        """Set or (None) delete."""
        self._encoded.pop(key, None)
        if value is None:
            self._used.pop(key, None)
        else:
            self._used[key] = value

    def read(self, key: bytes, encoded: bytes | None) -> None:
        """Set or (None) delete, as a changelog tells."""
        self._used.pop(key, None)
        if encoded is None:
            self._encoded.pop(key, None)
        else:
            self._encoded[key] = encoded

    def encoded(self, key: bytes, encode: Callable[[V], bytes]) -> bytes | None:
        """The value as it stands in a changelog; None: there is no such key."""
        value = self._used.get(key)
        return self._encoded.get(key) if value is None else encode(value)

    def items(self) -> Iterator[tuple[bytes, V]]:
        """Keys and values, these as `peek` gives them."""
        yield from self._used.items()
        decode = self._decode
        for key, encoded in self._encoded.items():
            yield key, decode(encoded)

    def __contains__(self, key: bytes) -> bool:
        return key in self._used or key in self._encoded

    def __iter__(self) -> Iterator[bytes]:
        yield from self._used
        yield from self._encoded

    def __len__(self) -> int:
        return len(self._used) + len(self._encoded)
