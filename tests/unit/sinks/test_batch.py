"""How far a batch moves the offsets."""

from hypothesis import given
from hypothesis import strategies as st

from sinks.batch import Move, Taken, moves_of


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
