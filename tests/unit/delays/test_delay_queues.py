"""What is held of each partition: in the log's order, never early, and no more than memory has room for."""

from __future__ import annotations

from schemas.dead import Header
from streams.delays.queues import MOST_BYTES, MOST_BYTES_IN_ALL, MOST_RECORDS, Queues
from streams.delays.records import Record

SECOND, MINUTE = "dispatch.delay.1s", "dispatch.delay.1m"
T0 = 1_760_000_000_000
DUE: Header = ("due-at", b"%d" % (T0 + 5_000))


def queues(*places: tuple[str, int]) -> Queues:
    made = Queues({SECOND: 1_000, MINUTE: 60_000})
    made.assign(places)
    return made


def record(
    topic: str = SECOND,
    partition: int = 0,
    offset: int = 0,
    at: int = 0,
    size: int = 0,
    headers: tuple[Header, ...] = (DUE,),
) -> Record:
    return Record(topic, partition, offset, T0 + at, b"k", bytes(size), headers)


def test_a_record_leaves_after_exactly_the_time_of_its_topic_since_its_append() -> None:
    held = queues((SECOND, 0))
    held.add(record(at=7), T0 + 50)
    assert held.next_leaves_ms() == T0 + 1_007
    assert held.ready(T0 + 1_006.9, 10, 1_000) == []
    assert len(held.ready(T0 + 1_007, 10, 1_000)) == 1


def test_br33_one_head_that_waits_stops_no_other_partition() -> None:
    held = queues((MINUTE, 0), (MINUTE, 1))
    held.add(record(MINUTE, 0, at=0), T0)
    held.add(record(MINUTE, 1, at=-60_000), T0)
    (first,) = held.ready(T0, 10, 1_000)
    assert first.record.partition == 1


def test_a_record_from_the_future_waits_from_now() -> None:
    """Kafka's clock was set back after the append: nobody waits longer than the topic's time for that."""
    held = queues((SECOND, 0))
    held.add(record(at=3_600_000), T0)
    assert held.next_leaves_ms() == T0 + 1_000


def test_a_record_without_a_due_time_is_no_reason_to_wait() -> None:
    held = queues((SECOND, 0))
    held.add(record(headers=()), T0)
    (only,) = held.ready(T0, 10, 1_000)
    assert only.due_ms is None


def test_those_that_waited_longest_leave_first_and_a_batch_has_a_bound() -> None:
    held = queues((SECOND, 0), (SECOND, 1))
    for offset in range(5):
        held.add(record(partition=0, offset=offset, at=10), T0 + 10)
        held.add(record(partition=1, offset=offset, at=0), T0 + 10)
    batch = held.ready(T0 + 2_000, 7, 10**6)
    assert [one.record.partition for one in batch] == [1] * 5 + [0] * 2
    assert held.offsets_after(batch) == {(SECOND, 1): 5, (SECOND, 0): 2}
    held.left(batch)
    assert held.waiting == 3


def test_a_batch_is_bounded_in_bytes_but_takes_one_record_of_any_size() -> None:
    held = queues((SECOND, 0))
    for offset in range(3):
        held.add(record(offset=offset, size=600), T0)
    assert len(held.ready(T0 + 2_000, 10, 1_000)) == 1
    assert len(held.ready(T0 + 2_000, 10, 1_500)) == 2
    assert len(held.ready(T0 + 2_000, 10, 10)) == 1


def test_a_suspect_goes_alone_and_lets_those_before_it_go_first() -> None:
    held = queues((SECOND, 0))
    for offset in range(3):
        held.add(record(offset=offset), T0)
    alone = {(SECOND, 0, 1)}
    before = held.ready(T0 + 2_000, 10, 10**6, alone)
    assert [one.record.offset for one in before] == [0]
    held.left(before)
    assert [one.record.offset for one in held.ready(T0 + 2_000, 10, 10**6, alone)] == [1]


def test_reading_pauses_when_a_queue_is_full_and_goes_on_when_half_has_left() -> None:
    held = queues((SECOND, 0), (MINUTE, 0))
    for offset in range(MOST_RECORDS):
        held.add(record(offset=offset), T0)
    assert held.flow() == ([(SECOND, 0)], [])
    assert held.flow() == ([], [])
    held.left(held.ready(T0 + 2_000, MOST_RECORDS // 2 - 1, 10**9))
    assert held.flow() == ([], [])
    held.left(held.ready(T0 + 2_000, 1, 10**9))
    assert held.flow() == ([], [(SECOND, 0)])


def test_reading_pauses_by_size_too() -> None:
    held = queues((SECOND, 0))
    held.add(record(size=MOST_BYTES), T0)
    assert held.flow() == ([(SECOND, 0)], [])


def test_when_memory_is_scarce_only_partitions_of_which_nothing_is_held_are_read() -> None:
    places = [(SECOND, partition) for partition in range(200)]
    held = queues(*places)
    for partition in range(140):
        held.add(record(partition=partition, size=MOST_BYTES // 2 - 1_000), T0)
    assert 140 * (MOST_BYTES // 2 - 1_000) > MOST_BYTES_IN_ALL
    pause, _ = held.flow()
    assert sorted(pause) == places[:140]
    held.left(held.ready(T0 + 2_000, 139, 10**9))
    assert len(held.flow()[1]) == 140, "nothing is scarce any more"


def test_what_is_revoked_is_forgotten_and_what_is_assigned_again_begins_unpaused() -> None:
    held = queues((SECOND, 0))
    for offset in range(MOST_RECORDS):
        held.add(record(offset=offset), T0)
    held.flow()
    held.revoke([(SECOND, 0)])
    assert (held.waiting, held.next_leaves_ms(), held.flow(), held.ends()) == (0, None, ([], []), {})
    held.add(record(offset=MOST_RECORDS), T0)  # it was on its way
    assert held.waiting == 0
    held.assign([(SECOND, 0)])
    held.add(record(offset=0, at=0), T0 + 900)
    assert held.next_leaves_ms() == T0 + 1_000
    assert held.flow() == ([], [])


def test_a_client_that_goes_back_reads_everything_again() -> None:
    held = queues((SECOND, 0))
    for offset in (5, 6, 3):
        held.add(record(offset=offset), T0)
    assert [one.record.offset for one in held.ready(T0 + 2_000, 10, 10**6)] == [3]


def test_ends_of_transactions_are_committed_when_nothing_waits_before_them() -> None:
    held = queues((SECOND, 0))
    held.add(record(offset=4), T0)
    held.reached_end((SECOND, 0), 7)
    assert held.ends() == {}
    batch = held.ready(T0 + 2_000, 10, 10**6)
    held.left(batch)
    held.committed(held.offsets_after(batch))
    assert held.ends() == {(SECOND, 0): 7}
    held.committed({(SECOND, 0): 7})
    assert held.ends() == {}
    held.reached_end((SECOND, 0), 7)
    assert held.ends() == {}
