"""Every way in which we find a key's partition gives the one that Kafka's own clients give."""

from __future__ import annotations

import pytest
from aiokafka.partitioner import murmur2
from hypothesis import given
from hypothesis import strategies as some

from streams import partitioner
from streams.partitioner import Partitioner, in_c, in_python

KNOWN = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}
"""Keys and their hashes, from the tests of Kafka's own client (UtilsTest.testMurmur2)."""


@pytest.fixture(params=["c", "python"])
def one(request: pytest.FixtureRequest) -> Partitioner:
    found = in_c() if request.param == "c" else in_python
    assert found is not None, (
        "this build of librdkafka hides its partitioner: every new contact costs 17 µs more"
    )
    return found


@pytest.mark.parametrize("key", KNOWN)
def test_keys_lie_where_kafkas_own_client_puts_them(one: Partitioner, key: bytes) -> None:
    for partitions in (1, 8, 24, 1000):
        assert one(key, partitions) == (KNOWN[key] & 0x7FFFFFFF) % partitions


@given(some.binary(max_size=120), some.integers(1, 10_000))
def test_both_ways_agree_on_any_bytes(key: bytes, partitions: int) -> None:
    expected = (murmur2(key) & 0x7FFFFFFF) % partitions
    assert in_python(key, partitions) == partitioner.partition_of(key, partitions) == expected
