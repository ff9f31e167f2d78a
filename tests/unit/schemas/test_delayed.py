"""A record of an unknown version is tried again for an hour; a delayed one says where it goes."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from schemas.dead import Header
from schemas.delayed import (
    DUE_AT,
    EVERY_MS,
    FOR_MS,
    FORWARD_TO,
    LARGEST,
    UNKNOWN_SINCE,
    WAITS_IN,
    goes_to,
    has_room,
    headers_for,
    tried_again,
)
from schemas.topic_names import CONTROL, JOBS, OUTCOMES, SOURCE
from streams.due import first_tier
from streams.topics import SOURCE_MAX_BYTES

NOW_MS = 1_760_000_000_000


@dataclass
class Record:
    """A record as it was read."""

    headers: list[Header]
    key: bytes | None = b"k"
    value: bytes | None = b"v"
    topic: str = SOURCE
    partition: int = 3
    offset: int = 7
    timestamp: int = NOW_MS - 5


def test_it_waits_where_the_arithmetic_of_the_delays_says() -> None:
    assert first_tier(NOW_MS + EVERY_MS, NOW_MS) == WAITS_IN


def test_each_try_carries_since_when_and_where_to_once() -> None:
    headers: list[Header] = [("a", b"1"), ("a", None)]
    for n in range(FOR_MS // EVERY_MS):
        again = tried_again(Record(headers), CONTROL, NOW_MS + n * EVERY_MS)
        assert again is not None
        topic, headers = again
        assert topic == WAITS_IN and goes_to(headers) == CONTROL
        assert [name for name, _ in headers] == [
            "a", "a", UNKNOWN_SINCE, DUE_AT, "original-timestamp", FORWARD_TO,
        ]  # fmt: skip
        assert dict(headers)[UNKNOWN_SINCE] == b"%d" % NOW_MS
        assert dict(headers)["original-timestamp"] == b"%d" % (NOW_MS - 5)
    assert tried_again(Record(headers), CONTROL, NOW_MS + FOR_MS) is None


@pytest.mark.parametrize("since", [None, b"", b"soon", b"-1", b"9" * 15, b"9" * 16, "\u0663".encode()])
def test_an_impossible_since_counts_from_now(since: bytes | None) -> None:
    again = tried_again(Record([(UNKNOWN_SINCE, since)]), SOURCE, NOW_MS)
    assert again is not None
    assert [value for name, value in again[1] if name == UNKNOWN_SINCE] == [b"%d" % NOW_MS]


def test_what_has_no_room_for_a_header_is_not_sent_again() -> None:
    """A topic that refused it would end the worker, and the next one, for ever."""
    assert LARGEST + 8 * 1024 < SOURCE_MAX_BYTES
    full = Record([], value=b"x" * LARGEST)
    assert not has_room(full) and tried_again(full, SOURCE, NOW_MS) is None
    assert has_room(Record([], value=b"x" * (LARGEST - 1)))
    assert not has_room(Record([("x", b"y" * 500)], value=b"x" * (LARGEST - 100)))


@pytest.mark.parametrize("to", [JOBS, OUTCOMES])
def test_what_is_delayed_anew_goes_where_it_is_said_now(to: str) -> None:
    before = headers_for(1, [("x", b"1")], 2, CONTROL)
    assert goes_to(before) == CONTROL
    assert goes_to(headers_for(1, before, 2, to)) == to
