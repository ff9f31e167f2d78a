"""How far a batch moves the offsets, and what a dead letter of the sink carries."""

from hypothesis import given
from hypothesis import strategies as st

from sinks.batch import Move, Record, Taken, dead_letter_headers, moves_of


def test_each_partition_moves_to_its_last_record_from_where_postgres_has_it() -> None:
    batch = [Taken(1, 8), Taken(0, 3), Taken(1, 9)]
    assert moves_of(batch, {0: 2, 1: 5, 2: 7}) == [Move(0, 2, 3), Move(1, 5, 9)]


def test_a_cut_topic_moves_backwards() -> None:
    assert moves_of([Taken(0, 1)], {0: 500}) == [Move(0, 500, 1)]


@given(st.lists(st.integers(0, 3), max_size=30), st.integers(0, 30))
def test_two_halves_move_as_far_as_the_whole(partitions: list[int], cut: int) -> None:
    batch, next_of = [], dict.fromkeys(range(4), 0)
    for partition in partitions:
        next_of[partition] += 1
        batch.append(Taken(partition, next_of[partition]))
    positions = dict.fromkeys(range(4), 0)
    for half in (batch[:cut], batch[cut:]):
        for move in moves_of(half, positions):
            assert positions[move.partition] == move.expected
            positions[move.partition] = move.next
    assert positions == next_of


RECORD = Record(
    "p.dispatch.outcomes", 3, 42, 1_790_000_000_000, b"k", b"\xff\x00", [("traceparent", b"00-x")]
)


def test_a_dead_letter_says_where_it_came_from_and_why() -> None:
    headers = dict(dead_letter_headers(RECORD, "bad_avro", "cut off", 5))
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
    once = dead_letter_headers(RECORD, "bad_avro", "cut off", 5)
    again = Record("p.dispatch.outcomes", 0, 77, 9, b"k", b"\xff\x00", once)
    twice = dead_letter_headers(again, "refused_by_postgres", "x" * 100_000, 6)
    assert len(twice) == len(once)
    headers = dict(twice)
    assert headers["kafka_dlt-original-offset"] == b"42"
    assert headers["first-failed-at"] == b"5"
    assert headers["reason"] == b"refused_by_postgres"
    assert sum(len(value or b"") for value in headers.values()) < 8 * 1024
