"""Header names that are no UTF-8: every record of a fetch is read, in its order, with the bytes it had."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from aiokafka.consumer import fetcher
from hypothesis import given
from hypothesis import strategies as st

from streams.transport.foreign_names import FetchedBatches, PartitionRecords
from tests.raw_names import RawName, RecordBatchBuilder

PLACE = SimpleNamespace(topic="t", partition=3)
Given = tuple[bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]


def batch(records: list[Given], base: int = 0, codec: int = 0) -> bytes:
    builder = RecordBatchBuilder(2, codec, False, -1, -1, -1, 1 << 20)
    for n, (key, value, headers) in enumerate(records):
        builder.append(n, 1_000 + n, key, value, [(RawName(name), given) for name, given in headers])
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8, "big")
    return bytes(data)


def read(data: bytes, offset: int = 0) -> list[fetcher.ConsumerRecord]:
    records = PartitionRecords(PLACE, FetchedBatches(data), [], offset, None, None, True, "read_committed")
    found = list(records)
    assert not found or records.next_fetch_offset > found[-1].offset
    return found


BAD: Given = (b"k", b"\xff", [(b"ok", b"1"), (b"\xff\xfe", b"\x00"), (b"", None)])
GOOD: Given = (None, None, [("é".encode(), b"2")])


def test_aiokafka_alone_would_raise() -> None:
    with pytest.raises(UnicodeDecodeError):
        list(
            fetcher.PartitionRecords(
                PLACE, FetchedBatches(batch([BAD])), [], 0, None, None, True, "read_committed"
            )
        )


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4], ids=["plain", "gzip", "snappy", "lz4", "zstd"])
def test_names_are_escaped_and_everything_else_is_as_it_was(codec: int) -> None:
    first, second, third = read(batch([GOOD, BAD, GOOD], codec=codec))
    assert (second.key, second.value, second.timestamp) == (b"k", b"\xff", 1_001)
    assert second.headers == (("ok", b"1"), ("\\xff\\xfe", b"\x00"), ("", None))
    assert first.headers == third.headers == (("é", b"2"),)
    assert [one.offset for one in (first, second, third)] == [0, 1, 2]


def test_a_fetch_may_begin_in_the_middle_of_a_batch_and_go_on_behind_it() -> None:
    data = batch([GOOD, BAD, BAD], 10) + batch([GOOD], 20) + batch([BAD], 30) + batch([GOOD], 40)
    assert [one.offset for one in read(data, 12)] == [12, 20, 30, 40]
    assert [one.offset for one in read(data, 11)] == [11, 12, 20, 30, 40]


names = st.binary(max_size=6)
given_records = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=200),
        st.lists(st.tuples(names, st.none() | st.binary(max_size=5)), max_size=3),
    ),
    min_size=1,
    max_size=6,
)


@pytest.mark.thorough
@given(st.lists(given_records, min_size=1, max_size=4), st.integers(0, 4), st.integers(0, 5))
def test_no_record_is_lost_or_doubled_whatever_the_names_are(
    batches: list[list[Given]], codec: int, begin: int
) -> None:
    begin = min(begin, len(batches[0]) - 1)  # no fetch begins with a batch that ends before its offset
    data = b"".join(batch(records, 10 * n, codec) for n, records in enumerate(batches))
    wanted = [
        (10 * n + m, key, value, tuple((name.decode(errors="backslashreplace"), v) for name, v in headers))
        for n, records in enumerate(batches)
        for m, (key, value, headers) in enumerate(records)
        if 10 * n + m >= begin
    ]
    assert [(one.offset, one.key, one.value, one.headers) for one in read(data, begin)] == wanted
