"""Reads records whose header names are no text: a single one would end every worker that fetches it.

Kafka takes any bytes as the name of a header, and its own clients can write them; aiokafka decodes names as
UTF-8 and raises, at that record, for ever. Here what can't be decoded is escaped (`\\xff`), and the record is
read, passed on and buried like any other: key, value and the headers' values are the bytes that they were.

The quick parser does all the work until it raises; only then the batch is read anew, in Python.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import structlog
from aiokafka.consumer import fetcher
from aiokafka.record.default_records import _DefaultRecordBatchPy, _DefaultRecordPy
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

log = structlog.get_logger(__name__)

_OVERHEAD: Final = struct.Struct(">qi")
"""How every batch begins: its first offset, and the bytes that follow."""


class FetchedBatches:
    """aiokafka's `MemoryRecords`, which also knows the bytes of the batch that it has given last."""

    __slots__ = ("_batches", "_data", "_end", "_start", "has_next", "size_in_bytes")

    def __init__(self, data: bytes) -> None:
        self._batches = MemoryRecords(data)
        self._data = data
        self._start = self._end = 0
        self.has_next = self._batches.has_next
        self.size_in_bytes = self._batches.size_in_bytes

    def next_batch(self) -> Any:
        """See aiokafka."""
        self._start = self._end
        _, size = _OVERHEAD.unpack_from(self._data, self._start)
        self._end += _OVERHEAD.size + size
        return self._batches.next_batch()

    def last(self) -> Any:
        """The last batch once more, for the parser in Python."""
        return _DefaultRecordBatchPy(self._data[self._start : self._end])


class PartitionRecords(fetcher.PartitionRecords):
    """aiokafka's records of one partition's part of a fetch, whatever their headers are called."""

    next_fetch_offset: int

    def __next__(self) -> Any:
        while True:
            try:
                return super().__next__()
            except UnicodeDecodeError as error:
                log.warning(
                    "a header's name is no UTF-8, it is escaped",
                    topic=self._tp.topic, partition=self._tp.partition, error=error.reason,
                )  # fmt: skip
                self._records_iterator = self._go_on(self._records.last())

    def _go_on(self, batch: Any) -> Iterator[Any]:
        """The rest of the batch that could not be read, and of the fetch."""
        for record in escaped(batch):
            if record.offset >= self.next_fetch_offset:
                self.next_fetch_offset = record.offset + 1
                yield self._consumer_record(self._tp, record)
        self.next_fetch_offset = batch.next_offset
        yield from self._unpack_records()


def install() -> None:
    """Make every aiokafka consumer of this process read so."""
    fetcher.MemoryRecords = FetchedBatches
    fetcher.PartitionRecords = PartitionRecords


def escaped(batch: Any) -> Iterator[Any]:
    """The records of a batch (aiokafka's in Python, none of it read yet), with readable header names."""
    batch._maybe_uncompress()
    buffer, pos = batch._buffer, batch._pos
    for _ in range(batch._num_records):
        _, pos = decode_varint(buffer, pos)  # its length
        _, pos = decode_varint(buffer, pos)  # its attributes: there are none
        later, pos = decode_varint(buffer, pos)
        timestamp = batch.max_timestamp if batch.timestamp_type else batch.first_timestamp + later
        further, pos = decode_varint(buffer, pos)
        key, pos = _bytes_at(buffer, pos)
        value, pos = _bytes_at(buffer, pos)
        count, pos = decode_varint(buffer, pos)
        headers: list[tuple[str, bytes | None]] = []
        for _ in range(count):
            name, pos = _bytes_at(buffer, pos)
            given, pos = _bytes_at(buffer, pos)
            headers.append(((name or b"").decode(errors="backslashreplace"), given))
        yield _DefaultRecordPy(
            batch.base_offset + further, timestamp, batch.timestamp_type, key, value, headers
        )


def _bytes_at(buffer: bytearray, pos: int) -> tuple[bytes | None, int]:
    size, pos = decode_varint(buffer, pos)
    if size < 0:
        return None, pos
    return bytes(buffer[pos : pos + size]), pos + size
