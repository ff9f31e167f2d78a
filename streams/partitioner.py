"""Where a key's records lie: Kafka's own hash, murmur2, as everybody who writes for us must use it (pure)."""

from __future__ import annotations

from functools import lru_cache

from aiokafka.partitioner import murmur2


@lru_cache(maxsize=100_000)
def _hash(key: bytes) -> int:
    # kept, since in plain Python it takes longer than reading an event
    return int(murmur2(key)) % 2**31


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key in a topic with so many of them."""
    return _hash(key) % partitions
