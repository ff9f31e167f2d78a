"""What the forwarder reads and writes, as plain data."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

from schemas.dead import Header

Place = tuple[str, int]
"""Full name of a topic, and a partition."""


class Record(Struct, frozen=True, gc=False):
    """One record of a delay topic. `timestamp` is the time of its append on Kafka's clock, Unix ms."""

    topic: str
    """Full name."""
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
    readable: bool = True
    """False: its headers' names are no text, and `headers` is empty."""

    @property
    def place(self) -> Place:
        """Where it was read."""
        return self.topic, self.partition

    @property
    def size(self) -> int:
        """Bytes of key and value, and roughly those around them."""
        return len(self.key or b"") + len(self.value or b"") + 100


class End(Struct, frozen=True, gc=False):
    """Everything below `offset` was read; there is no more now."""

    place: Place
    offset: int


class Send(Struct, frozen=True, gc=False):
    """A record to write. It keeps its partition: all topics that carry contacts have the same number."""

    topic: str
    """Name without prefix."""
    partition: int
    """-1: by the key's hash."""
    key: bytes | None
    value: bytes | None
    headers: Sequence[Header]
