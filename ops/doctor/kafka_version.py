"""Which Kafka answers: the release that a cluster has settled on, from its ApiVersions answer.

Clients never need it, so none of ours tells it; for a person who looks for trouble it is the first question.
Spoken to on a plain connection, as everything else here.
"""

from __future__ import annotations

import socket
import struct
from typing import Final

_API_VERSIONS: Final = 18
_REQUEST_VERSION: Final = 3
_FINALIZED_FEATURES: Final = 2
_CLIENT: Final = b"rajada"

_SINCE: Final = (
    (1, "3.0"), (2, "3.1"), (3, "3.2"), (4, "3.3"), (8, "3.4"), (9, "3.5"), (12, "3.6"), (15, "3.7"),
    (20, "3.8"), (21, "3.9"), (22, "4.0"), (26, "4.1"), (28, "4.2"),
)  # fmt: skip
"""First level of `metadata.version` → release (Kafka's MetadataVersion)."""


def kafka_version(host: str, port: int, timeout_s: float = 3.0) -> str | None:
    """The release, `before 3.3 or on ZooKeeper` when it has no settled one, None when it didn't say."""
    header = struct.pack(">hhih", _API_VERSIONS, _REQUEST_VERSION, 1, len(_CLIENT)) + _CLIENT + b"\0"
    # a version-3 body: two compact strings (client's name and version) and no tagged fields
    name = bytes([len(_CLIENT) + 1]) + _CLIENT
    request = header + name + b"\x021" + b"\0"
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.sendall(struct.pack(">i", len(request)) + request)
            length = struct.unpack(">i", _exactly(connection, 4))[0]
            level = metadata_level(_exactly(connection, length))
    except (OSError, ValueError, struct.error, IndexError):
        return None
    return "before 3.3 or on ZooKeeper" if level is None else release(level)


def release(level: int) -> str:
    """The release of a level of `metadata.version`."""
    known = [name for since, name in _SINCE if since <= level]
    return known[-1] if known else f"level {level}"


def metadata_level(answer: bytes) -> int | None:
    """The finalized level of `metadata.version` in an ApiVersions answer of version 3; None: it has none.

    Raises ValueError or IndexError when it is no such answer.
    """
    reader = _Reader(answer)
    reader.skip(4)  # correlation id; the header of this answer has no tags, whatever the version
    if reader.int16():
        raise ValueError("the broker refuses the request")
    for _ in range(reader.unsigned() - 1):
        reader.skip(6)  # key, least and highest version
        reader.tags()
    reader.skip(4)  # throttle time
    content = reader.tags().get(_FINALIZED_FEATURES)
    if content is None:
        return None
    features = _Reader(content)
    for _ in range(features.unsigned() - 1):
        name = features.text()
        highest = features.int16()
        features.skip(2)
        features.tags()
        if name == "metadata.version":
            return highest
    return None


class _Reader:
    """Reads Kafka's types from bytes; IndexError at their end."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self._at = 0

    def skip(self, count: int) -> bytes:
        """The next bytes."""
        found = self._content[self._at : self._at + count]
        if len(found) != count:
            raise IndexError("the answer ends early")
        self._at += count
        return found

    def int16(self) -> int:
        """A signed big-endian integer of two bytes."""
        return int.from_bytes(self.skip(2), "big", signed=True)

    def unsigned(self) -> int:
        """A varint: seven bits a byte, the lowest first."""
        value, shift = 0, 0
        while True:
            (byte,) = self.skip(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
            shift += 7

    def text(self) -> str:
        """A compact string: length plus one, then the bytes."""
        return self.skip(self.unsigned() - 1).decode()

    def tags(self) -> dict[int, bytes]:
        """Tagged fields, by tag."""
        found = {}
        for _ in range(self.unsigned()):
            tag = self.unsigned()
            found[tag] = self.skip(self.unsigned())
        return found


def _exactly(connection: socket.socket, count: int) -> bytes:
    content = b""
    while len(content) < count:
        part = connection.recv(count - len(content))
        if not part:
            raise OSError("the broker closed the connection")
        content += part
    return content
