"""A file with the state of one changelog partition, so that a restart reads only what was written since.

A head (whose state, up to which offset), the keys with their encoded values, and a digest over everything.
A draft gets its name by a rename, after fsync: under the final name lies a whole file or none.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from .errors import TransportError

MAGIC = b"changelog snapshot 1\n"
_LENGTH = struct.Struct(">I")
_ENTRY = struct.Struct(">II")
_END = _ENTRY.pack(0xFFFFFFFF, 0)
_DIGEST_BYTES = 32


class SnapshotUnusable(TransportError):
    """A snapshot can't be used and is ignored: the whole changelog is read; the message tells why."""


@dataclass(frozen=True, slots=True)
class Head:
    """Whose state a snapshot holds, and how far it goes."""

    topic: str
    """The changelog's name."""
    topic_id: str
    """Kafka's id of the changelog: one that was made anew has another."""
    partition: int
    covered: int
    """What lies below this offset is in the snapshot; what may lie above is read again."""
    token: str
    """The highest token below `covered`, hexadecimal; empty: none."""
    written_at: float
    """Seconds since 1970."""


class Draft:
    """A snapshot that is being written."""

    def __init__(self, path: Path, head: Head) -> None:
        self._path = path
        self._draft = path.with_name(f"{path.name}.{os.getpid()}.draft")
        self._digest = blake2b(digest_size=_DIGEST_BYTES)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self._draft.open("wb")
        encoded = json.dumps(asdict(head)).encode()
        self.write(MAGIC + _LENGTH.pack(len(encoded)) + encoded)

    def write(self, data: bytes) -> None:
        """Append bytes made by `entries`."""
        self._digest.update(data)
        self._file.write(data)

    def publish(self) -> None:
        """Make it durable and give it its name. Raises OSError."""
        self.write(_END)
        self._file.write(self._digest.digest())
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._draft.replace(self._path)
        folder = os.open(self._path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def discard(self) -> None:
        """Forget it; harmless after `publish`."""
        self._file.close()
        self._draft.unlink(missing_ok=True)


def entries(pairs: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Keys and encoded values in a snapshot's form."""
    parts: list[bytes] = []
    for key, value in pairs:
        parts += (_ENTRY.pack(len(key), len(value)), key, value)
    return b"".join(parts)


def read(path: Path) -> tuple[Head, Iterator[tuple[bytes, bytes]]] | None:
    """The head and the entries of a snapshot; None when there is no file.

    Raises SnapshotUnusable when it can't be read or isn't whole.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SnapshotUnusable(f"it can't be read: {error.strerror}") from error
    body, digest = memoryview(data)[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    if not data.startswith(MAGIC):
        raise SnapshotUnusable("it is no snapshot of this version")
    if blake2b(body, digest_size=_DIGEST_BYTES).digest() != digest:
        raise SnapshotUnusable("its digest is wrong, it was cut or changed")
    at = len(MAGIC) + _LENGTH.size
    (length,) = _LENGTH.unpack_from(data, len(MAGIC))
    head = Head(**json.loads(data[at : at + length]))
    return head, _entries(data, at + length)


def _entries(data: bytes, at: int) -> Iterator[tuple[bytes, bytes]]:
    unpack, size = _ENTRY.unpack_from, _ENTRY.size
    while True:
        key_length, value_length = unpack(data, at)
        if key_length == 0xFFFFFFFF:
            return
        at += size
        middle = at + key_length
        end = middle + value_length
        yield data[at:middle], data[middle:end]
        at = end
