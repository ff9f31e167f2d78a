"""What stretch of a log is meant, and what is said when it is not there."""

from __future__ import annotations

import pytest

from ops.stretch import Asked, WrongStretch, stretch

LOG = {0: (0, 100), 1: (40, 90), 2: (7, 7)}


def test_times_cut_every_partition() -> None:
    asked = Asked(from_time={0: 50, 1: 60}, to_time={0: 80})
    assert stretch(asked, LOG).ranges == {0: (50, 80), 1: (60, 90)}
    assert stretch(Asked(from_time={}), LOG).ranges == {}
    assert stretch(Asked(from_time={0: 50}, partition=1), LOG).ranges == {}


def test_offsets_cut_one_and_both_ends_are_meant() -> None:
    found = stretch(Asked(from_offset=50, to_offset=60, partition=1), LOG)
    assert (found.ranges, found.notes) == ({1: (50, 61)}, [])
    assert stretch(Asked(from_offset=5), {0: (0, 10)}).ranges == {0: (5, 10)}
    assert stretch(Asked(from_offset=5, to_time={0: 7}, partition=0), LOG).ranges == {0: (5, 7)}


def test_what_is_gone_or_not_there_yet_is_told() -> None:
    found = stretch(Asked(from_offset=10, to_offset=500, partition=1), LOG)
    assert found.ranges == {1: (40, 90)}
    assert found.notes == [
        "Partition 1 begins at offset 40: 10 to 39 are gone.",
        "Partition 1 ends at offset 89; it is read up to there.",
    ]


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (Asked(from_offset=1), "name it with --partition"),
        (Asked(to_offset=1, from_time={0: 1}), "name it with --partition"),
        (Asked(partition=9), "no partition 9; they are 0 to 2"),
        (Asked(from_offset=90, partition=1), "partition 1 ends at offset 89, before 90"),
        (Asked(from_offset=60, to_offset=50, partition=1), "lies before --from-offset 60"),
    ],
)
def test_what_can_not_be_meant_is_refused(asked: Asked, told: str) -> None:
    with pytest.raises(WrongStretch, match=told):
        stretch(asked, LOG)
