"""Dead letters say where they came from and why, once."""

from __future__ import annotations

from schemas.dead import Cause, dead_headers
from sinks.batch import Record

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
