"""Where a key's records lie: Kafka's own hash, murmur2, as everybody who writes for us must use it (pure)."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from typing import Final

from aiokafka.partitioner import murmur2
from confluent_kafka import cimpl

Partitioner = Callable[[bytes, int], int]
"""Key and number of partitions → partition."""


def in_c() -> Partitioner | None:
    """librdkafka's partitioner, which its producers use, too; None: this build of it doesn't let us in.

    In plain Python a key takes 17 µs, which is a third of what an event of a new contact costs at all.
    """
    try:
        # PyDLL keeps the interpreter's lock: to wait for it again takes longer than the hash.
        call = ctypes.PyDLL(cimpl.__file__).rd_kafka_msg_partitioner_murmur2
    except (OSError, AttributeError):
        return None
    call.restype = ctypes.c_int32
    call.argtypes = [
        ctypes.c_void_p,  # the topic; not looked at
        ctypes.c_char_p,
        ctypes.c_size_t,
        ctypes.c_int32,
        ctypes.c_void_p,
        ctypes.c_void_p,
    ]

    def partition(key: bytes, partitions: int) -> int:
        found: int = call(None, key, len(key), partitions, None, None)
        return found

    return partition


@lru_cache(maxsize=100_000)
def _hash(key: bytes) -> int:
    return int(murmur2(key)) % 2**31


def in_python(key: bytes, partitions: int) -> int:
    """The same without librdkafka; what a key's hash is, is kept."""
    return _hash(key) % partitions


partition_of: Final[Partitioner] = in_c() or in_python
"""The partition of a key in a topic with so many of them."""
