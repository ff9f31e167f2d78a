"""The sweep's rules: who counts as behind, and that both statements mean the same events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from db.queries import load
from streams.sweep import SWEPT, Lag, Position, brake

offsets = st.integers(0, 50)


@given(
    start=offsets,
    ages=st.lists(st.integers(0, 100), max_size=20).map(lambda ages: sorted(ages, reverse=True)),
    position=st.none() | st.integers(0, 80),
)
def test_a_reader_is_behind_exactly_when_a_record_it_has_yet_to_handle_is_too_old(
    start: int, ages: list[int], position: int | None
) -> None:
    """`ages` of the records that are left, in seconds, oldest first; the limit is 60."""
    young = next((start + at for at, age in enumerate(ages) if age <= 60), None)
    place = Position(position, start, start + len(ages), young)
    waiting = [age for at, age in enumerate(ages) if start + at >= (position or 0)]
    assert place.unread == len(waiting)
    assert place.overdue == sum(age > 60 for age in waiting)


def test_a_record_that_arrives_while_it_is_asked_is_not_counted() -> None:
    assert Position(next=5, start=0, end=5, young=7).overdue == 0


def test_nobody_behind_is_no_brake_and_each_one_behind_is_named() -> None:
    well = Position(10, 0, 12, 10)
    late = Position(None, 3, 1_503, None)
    assert brake([Lag("worker", "a", [well]), Lag("sink", "b", [])], 60) is None
    told = brake([Lag("worker", "a", [well, late]), Lag("sink", "b", [late, late])], 60.0)
    assert told == (
        "the worker is more than 60 s behind (1,500 records of a); "
        "the sink is more than 60 s behind (3,000 records of b)"
    )


def test_an_event_type_goes_to_the_topic_of_its_name() -> None:
    assert all(one.event_type == one.topic for one in SWEPT)


def test_what_is_counted_is_what_is_claimed() -> None:
    def meant(name: str) -> list[str]:
        lines = [line.strip() for line in load(name).splitlines()]
        first = next(at for at, line in enumerate(lines) if line.startswith("WHERE e.event_type"))
        last = next(at for at, line in enumerate(lines) if line.startswith("AND (s.event_id IS NULL"))
        # a claim alone goes page by page
        return [line for line in lines[first:last] if "%(after_id)s" not in line]

    assert meant("sweep_claim") == meant("sweep_waiting")
