"""A fetch is cut into ranges that cover it, and a batch travels as one Faust message."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from faust.types import TP
from hypothesis import given
from hypothesis import strategies as st

from streams.transport.batches import cut, message_of, size_of


def record(offset, value=None):
    return SimpleNamespace(
        topic="t", partition=3, offset=offset, timestamp=1_700_000_000_123, key=None, value=value, headers=()
    )


@pytest.mark.thorough
@given(
    st.lists(st.none() | st.integers(0, 50), max_size=60),
    st.integers(0, 5),
    st.integers(0, 5),
    st.integers(1, 7),
    st.integers(1, 120),
)
def test_pieces_are_adjacent_cover_the_fetch_and_hold_their_records(sizes, before, behind, size, size_bytes):
    records = [record(before + i, value=b"x" * n) for i, n in enumerate(sizes) if n is not None]
    end = before + len(sizes) + behind
    pieces = list(cut(0, end, records, size, size_bytes))
    assert [piece[0] for piece in pieces] == [0, *(piece[1] for piece in pieces[:-1])]
    assert pieces[-1][1] == end
    assert [r for piece in pieces for r in piece[2]] == records
    for start, stop, part in pieces:
        assert len(part) <= size
        assert len(part) <= 1 or size_of(part) <= size_bytes
        assert all(start <= r.offset < stop for r in part)


def test_a_range_without_records_travels_too():
    message = message_of(TP("t", 3), [], offset=12, generation=4)
    assert (message.topic, message.partition, message.offset, message.value) == ("t", 3, 12, [])


def test_a_batch_is_one_message_that_stands_where_it_is_told():
    records = [record(5), record(9)]
    message = message_of(TP("t", 3), records, offset=9, generation=4)
    assert (message.tp, message.offset, message.generation_id) == (TP("t", 3), 9, 4)
    assert message.value is records
    assert message.key is None
    assert message.timestamp == pytest.approx(1_700_000_000.123)
