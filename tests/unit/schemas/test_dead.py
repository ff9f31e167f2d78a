"""Dead letters say where they came from and why, once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from schemas.dead import (
    LARGEST_LETTER,
    REPLAYS,
    Cause,
    Header,
    dead_headers,
    fitting,
    replays_of,
    resting_place,
    without_death,
)
from schemas.topic_names import DEAD, PARKING
from sinks.batch import Record
from streams.topics import DEAD_MAX_BYTES

RECORD = Record(
    "p.dispatch.outcomes", 3, 42, 1_790_000_000_000, b"k", b"\xff\x00", [("traceparent", b"00-x")]
)


def test_a_dead_letter_says_where_it_came_from_and_why() -> None:
    headers = dict(dead_headers(RECORD, Cause("sink", "bad_avro", "cut off"), 5))
    assert headers == {
        "traceparent": b"00-x",
        "first-failed-at": b"5",
        "kafka_dlt-original-topic": b"p.dispatch.outcomes",
        "kafka_dlt-original-partition": b"3",
        "kafka_dlt-original-offset": b"42",
        "kafka_dlt-original-timestamp": b"1790000000000",
        "stage": b"sink",
        "reason": b"bad_avro",
        "kafka_dlt-exception-fqcn": b"rajada.bad_avro",
        "kafka_dlt-exception-message": b"cut off",
    }


def test_headers_do_not_pile_up_when_a_record_dies_again() -> None:
    once = dead_headers(RECORD, Cause("sink", "bad_avro", "cut off"), 5)
    again = Record("p.dispatch.outcomes", 0, 77, 9, b"k", b"\xff\x00", once)
    twice = dead_headers(again, Cause("sink", "refused_by_postgres", "x" * 100_000), 6)
    assert len(twice) == len(once)
    headers = dict(twice)
    assert headers["kafka_dlt-original-offset"] == b"42"
    assert headers["first-failed-at"] == b"5"
    assert headers["reason"] == b"refused_by_postgres"
    assert sum(len(value or b"") for value in headers.values()) < 8 * 1024


def test_br_39_ten_hops_with_stack_traces_neither_grow_nor_pile_up() -> None:
    """A foreign hop leaves its trace each time; the letter's headers stay under 8 KiB and in number."""
    headers: list[Header] = list(RECORD.headers)
    counts, sizes = set(), set()
    for hop in range(10):
        trace: Header = ("kafka_dlt-exception-stacktrace", f"{hop} ä".encode() * 64 * 1024)
        died = Record("p.x", 0, hop, 9, b"k", b"v", [*without_trace(headers), trace])
        headers = dead_headers(died, Cause("sink", "bad_avro", "ä" * 64 * 1024), hop)
        counts.add(len(headers))
        sizes.add(sum(len(name) + len(value or b"") for name, value in headers))
        headers = without_death(headers)
    assert len(counts) == 1
    assert max(sizes) < 8 * 1024
    assert dict(headers)["kafka_dlt-original-offset"] == b"0"


def without_trace(headers: list[Header]) -> list[Header]:
    return [(name, value) for name, value in headers if "stacktrace" not in name]


def test_a_text_is_never_cut_inside_of_a_character() -> None:
    told = dict(dead_headers(RECORD, Cause("sink", "bad_avro", "aä" * 1_000), 5))
    assert (told["kafka_dlt-exception-message"] or b"").decode() == "aä" * 333 + "a"


def test_a_record_that_is_sent_again_is_as_it_was_but_for_where_it_came_from() -> None:
    letter = dead_headers(RECORD, Cause("sink", "bad_avro", "cut off", event_id="e", attempt=5), 5)
    assert without_death([*letter, ("rekeyed", b"1")]) == [
        ("traceparent", b"00-x"),
        ("first-failed-at", b"5"),
        ("kafka_dlt-original-topic", b"p.dispatch.outcomes"),
        ("kafka_dlt-original-partition", b"3"),
        ("kafka_dlt-original-offset", b"42"),
        ("kafka_dlt-original-timestamp", b"1790000000000"),
    ]


@pytest.mark.parametrize(
    ("value", "count", "topic"),
    [
        (None, 0, DEAD),
        (b"", 0, DEAD),
        (b"2", 2, DEAD),
        (b"3", 3, PARKING),
        (b"17", 17, PARKING),
        (b"-3", 0, DEAD),
        (b"9" * 5_000, 0, DEAD),
    ],
)
def test_br_43_after_three_replays_a_record_is_parked(value: bytes | None, count: int, topic: str) -> None:
    headers: list[Header] = [("traceparent", b"x"), (REPLAYS, value)]
    assert (replays_of(headers), resting_place(headers)) == (count, topic)


@pytest.mark.parametrize(
    ("key", "value", "extra", "whole", "kept"),
    [
        (b"k", b"x" * (4 * 1024 * 1024), 0, True, True),
        (b"k", b"x" * (LARGEST_LETTER + 1), 0, False, True),
        (b"k", b"x", LARGEST_LETTER, False, False),
        (b"k" * LARGEST_LETTER, b"x", 0, False, False),
        (None, None, 0, True, True),
    ],
)
def test_a_letter_that_no_topic_takes_goes_without_its_value_and_says_where_the_record_lies(
    key: bytes | None, value: bytes | None, extra: int, whole: bool, kept: bool
) -> None:
    """A producer that compresses puts more into a topic than the topic's limit."""
    origin = replace(RECORD, headers=[*RECORD.headers, ("extra", b"y" * extra)])
    headers = dead_headers(origin, Cause("collect", "not_json", "what"), 5)
    found = fitting(key, value, headers)
    if whole:
        assert found == (key, value, headers)
        return
    size = sum(len(one or b"") for one in found[:2]) + sum(len(n) + len(v or b"") + 10 for n, v in found[2])
    assert size <= LARGEST_LETTER < DEAD_MAX_BYTES - 32 * 1024
    told = dict(found[2])
    assert found[0] == (key if kept else None) and found[1] is None
    assert told["value-left-out"] == b"%d" % len(value or b"")
    assert told["reason"] == b"not_json" and told["kafka_dlt-original-offset"] == b"42"
    assert ("extra" in told) == kept
