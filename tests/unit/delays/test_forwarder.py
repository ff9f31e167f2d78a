"""The forwarder on a Kafka in memory: every record arrives once, never early, whatever happens on the way."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.delayed import FORWARD_TO, FORWARDED
from schemas.topic_names import DEAD, JOBS, OUTCOMES
from streams.delays.forwarder import BATCH_RECORDS
from streams.delays.queues import MOST_RECORDS
from streams.delays.records import Send
from streams.due import DUE_AT, ORIGINAL_TIMESTAMP, TIERS_MS, read_due
from tests.unit.delays.world import PARTITIONS, T0, Fault, World

HOUR = 3_600_000
DAY = 24 * HOUR
SHORTEST = 100
CYCLE = 25
"""What the forwarder itself adds: its pace, and a step of the world."""

delays = st.one_of(
    st.integers(0, 2_000),
    st.integers(0, 30 * DAY),
    st.sampled_from(list(TIERS_MS.values())),
)


def check(world: World, due: dict[str, int], *, late_ms: int = SHORTEST + CYCLE) -> None:
    """Everything arrived: once, not early, not too late; and nothing else did."""
    arrived = world.arrived()
    assert sorted((record.value or b"").decode() for record in arrived) == sorted(due)
    for record in arrived:
        name = (record.value or b"").decode()
        assert 0 <= record.timestamp - due[name] <= late_ms, name


@pytest.mark.parametrize(
    "delay_ms", [0, 1, 99, 101, 1_101, *TIERS_MS.values(), 2 * DAY, 9 * DAY + 12_345, 30 * DAY]
)
def test_every_delay_is_met(delay_ms: int) -> None:
    world = World()
    world.join()
    due = {"one": world.delay("one", delay_ms)}
    world.run(delay_ms - 1)
    assert not world.arrived() or delay_ms == 0
    world.run(SHORTEST + CYCLE)
    check(world, due)


def test_bytes_key_headers_and_partition_stay_as_they_are() -> None:
    world = World()
    world.join()
    due_ms = world.delay("äöü\x00", 12_345, partition=1, headers=[("a", b"1"), ("a", None), ("b", b"")])
    world.run(13_000)
    (record,) = world.arrived()
    assert (record.partition, record.key, record.value) == (1, b"key-1", "äöü\x00".encode())
    assert record.headers == (
        ("a", b"1"),
        ("a", None),
        ("b", b""),
        (DUE_AT, b"%d" % due_ms),
        (ORIGINAL_TIMESTAMP, b"%d" % T0),
    )


def test_a_short_delay_overtakes_a_long_one_of_the_same_contact() -> None:
    world = World()
    world.join()
    world.delay("long", HOUR)
    due = {"short": world.delay("short", 1_500)}
    world.run(2_000)
    check(world, due)


def test_br30_a_partition_that_moves_during_the_delay_is_served_by_whoever_has_it() -> None:
    """60 s of delay, partitions moved away and back within; paused state doesn't outlive an assignment."""
    world = World()
    first = world.join()
    due = {f"r{n}": world.delay(f"r{n}", 60_000) for n in range(2 * MOST_RECORDS)}
    world.run(100)
    assert first.paused, "its queue is full"
    second = world.join()
    world.run(10_000)
    world.kill(second)
    world.run(10_000)
    world.join()
    world.rebalance(shift=1)
    world.run(41_000)
    check(world, due, late_ms=SHORTEST + 10 * CYCLE)


def test_after_an_outage_records_are_not_sent_through_delays_that_have_passed() -> None:
    world = World()
    member = world.join()
    due = {"one": world.delay("one", HOUR - 1)}
    world.run(10)
    world.kill(member)
    world.run(HOUR)
    before = world.transactions
    world.join()
    world.run(100)
    assert world.transactions == before + 1
    check(world, due, late_ms=200)


@pytest.mark.parametrize("by_ms", [-HOUR, -5_000, 5_000, HOUR])
@pytest.mark.parametrize("delay_ms", [900, 61_000, 2 * HOUR])
def test_kafkas_clock_is_set_while_a_record_waits(by_ms: int, delay_ms: int) -> None:
    """It arrives when that clock says so: never early, and no later than the shortest delay allows."""
    world = World()
    world.join()
    due = {"one": world.delay("one", delay_ms)}
    world.run(delay_ms / 2)
    world.set_by_ms = by_ms
    world.run(max(0, delay_ms / 2 - by_ms) + SHORTEST + CYCLE)
    check(world, due, late_ms=max(SHORTEST + CYCLE, by_ms))


def test_a_clock_set_back_does_not_let_later_records_wait_for_earlier_ones() -> None:
    world = World()
    member = world.join()
    world.kill(member)
    world.delay("before", 1_000)
    world.set_by_ms = -HOUR
    due = {"after": world.delay("after", 1_000)}
    world.join()
    world.run(1_000 + SHORTEST + CYCLE)
    check(world, due)


@pytest.mark.parametrize("fault", get_args(Fault))
def test_a_transaction_that_fails_is_made_again_and_nothing_arrives_twice(fault: Fault) -> None:
    world = World()
    member = world.join()
    due = {f"r{n}": world.delay(f"r{n}", 100, partition=n % PARTITIONS) for n in range(10)}
    world.faults = [fault] * 3
    world.run(5_000)
    check(world, due, late_ms=3_000)
    assert member.tally.undone == (3 if fault == "abort" else 0)
    assert member.forwarder.undone is None


def test_more_than_a_batch_goes_in_several_transactions() -> None:
    world = World()
    world.join()
    due = {f"r{n}": world.delay(f"r{n}", 100) for n in range(2 * BATCH_RECORDS + 1)}
    world.run(1_000)
    check(world, due, late_ms=200)


@pytest.mark.parametrize(
    "headers",
    [(), ((DUE_AT, None),), ((DUE_AT, b"tomorrow"),), ((DUE_AT, b"5"), (DUE_AT, b"-1"))],
    ids=["none", "null", "text", "one of two"],
)
def test_a_record_without_a_due_time_dies_at_once_and_stops_nobody(
    headers: tuple[tuple[str, bytes | None], ...],
) -> None:
    world = World()
    member = world.join()
    world.append("dispatch.delay.1h", 0, b"k", b"bad", headers)
    due = {"good": world.delay("good", HOUR)}
    world.run(50)
    (letter,) = world.arrived(DEAD)
    assert (letter.key, letter.value, letter.partition) == (b"k", b"bad", 0)
    assert dict(letter.headers)["reason"] == b"due_at_unreadable"
    assert len(world.arrived(OUTCOMES)) == 1
    world.run(HOUR)
    check(world, due)
    assert (member.tally.dead, member.tally.due) == (1, 1)


@pytest.mark.parametrize("to", FORWARDED)
def test_a_record_goes_where_it_says_when_it_is_due_and_keeps_its_partition(to: str) -> None:
    world = World()
    member = world.join()
    due_ms = T0 + 61_500
    world.append("dispatch.delay.1m", 1, b"k", b"v", [(DUE_AT, b"%d" % due_ms), (FORWARD_TO, to.encode())])
    world.run(61_400)
    assert not world.arrived(to)
    world.run(SHORTEST + CYCLE + 100)
    (record,) = world.arrived(to)
    assert (record.partition, record.key, record.value) == (1, b"k", b"v")
    assert 0 <= record.timestamp - due_ms <= SHORTEST + CYCLE
    assert (member.tally.due, member.tally.dead) == (1, 0)


@pytest.mark.parametrize(
    "named",
    [[b"event_log"], [b""], [None], [b"\xff"], [b"dispatch.dead"], [b"dispatch.delay.1d"],
     [b"dispatch.jobs", b"dispatch.control"]],
)  # fmt: skip
def test_a_record_that_names_no_topic_of_ours_that_is_read_dies_and_stops_nobody(
    named: list[bytes | None],
) -> None:
    world = World()
    member = world.join()
    headers = [(DUE_AT, b"%d" % (T0 + 100)), *((FORWARD_TO, one) for one in named)]
    world.append("dispatch.delay.100ms", 0, b"k", b"bad", headers)
    due = {"good": world.delay("good", 150)}
    world.run(1_000)
    (letter,) = world.arrived(DEAD)
    assert (letter.key, letter.value) == (b"k", b"bad")
    assert dict(letter.headers)["reason"] == b"forward_to_unreadable"
    assert len(world.arrived(OUTCOMES)) == 1
    check(world, due)
    assert (member.tally.dead, member.tally.due) == (1, 1)


def test_a_record_that_no_topic_takes_dies_and_the_others_go_on() -> None:
    world = World(limits={JOBS: 100})
    member = world.join()
    due = {f"r{n}": world.delay(f"r{n}", 100) for n in range(5)}
    world.delay("x" * 200, 100)
    due |= {f"s{n}": world.delay(f"s{n}", 100) for n in range(5)}
    world.run(5_000)
    check(world, due, late_ms=4_000)
    (letter,) = world.arrived(DEAD)
    assert letter.value == b"x" * 200
    assert dict(letter.headers)["reason"] == b"too_large_to_delay"
    assert not member.trouble


def test_what_even_the_dead_letters_do_not_take_leaves_a_letter_that_says_where_it_lies() -> None:
    world = World(limits={JOBS: 100, DEAD: 100})
    world.join()
    world.delay("x" * 200, 100)
    due = {"good": world.delay("good", 100)}
    world.run(10_000)
    check(world, due, late_ms=9_000)
    (letter,) = world.arrived(DEAD)
    headers = dict(letter.headers)
    assert letter.value is None and headers["value-left-out"] == b"200"
    assert headers["kafka_dlt-original-topic"] == b"dispatch.delay.100ms"
    assert headers["kafka_dlt-original-offset"] == b"0"


def test_a_limit_that_is_raised_again_lets_a_suspect_through() -> None:
    world = World(limits={JOBS: 3})
    world.join()
    due = {"a": world.delay("a", 100), "long": world.delay("long", 100)}
    world.run(150)
    world.limits.clear()
    world.run(5_000)
    check(world, due, late_ms=4_000)


def test_quiet_partitions_show_no_lag() -> None:
    world = World()
    world.join()
    world.delay("one", 1_000)
    world.run(20_000)
    for place, log in world.logs.items():
        if place[0].startswith("dispatch.delay."):
            assert world.offsets.get(place, 0) == len(log), place


actions = st.lists(
    st.one_of(
        st.tuples(st.just("send"), delays),
        st.tuples(st.just("send"), delays),
        st.tuples(st.just("run"), st.integers(0, 2_000)),
        st.tuples(st.just("run"), st.integers(0, 3 * DAY)),
        st.tuples(st.just("fault"), st.sampled_from(get_args(Fault))),
        st.tuples(st.just("join"), st.just(0)),
        st.tuples(st.just("kill"), st.integers(0, 3)),
        st.tuples(st.just("move"), st.integers(1, 3)),
    ),
    max_size=30,
)


@pytest.mark.thorough
@settings(max_examples=60)
@given(actions)
def test_whatever_happens_each_record_arrives_once_and_never_early(
    todo: list[tuple[str, int | Fault]],
) -> None:
    world = World()
    world.join()
    due: dict[str, int] = {}
    for n, (what, value) in enumerate(todo):
        if what == "send":
            assert isinstance(value, int)
            due[f"r{n}"] = world.delay(f"r{n}", value, partition=n % PARTITIONS)
        elif what == "run":
            assert isinstance(value, int)
            world.run(value)
        elif what == "fault":
            assert not isinstance(value, int)
            world.faults.append(value)
        elif what == "join" and len(world.members) < 3:
            world.join()
        elif what == "kill" and len(world.members) > 1:
            assert isinstance(value, int)
            world.kill(world.members[value % len(world.members)])
        elif what == "move":
            assert isinstance(value, int)
            world.rebalance(value)
    world.run(31 * DAY)
    # a kill or a fault costs a try or two, no more
    check(world, due, late_ms=SHORTEST + CYCLE + 4_000 * sum(what == "fault" for what, _ in todo))
    assert all(read_due(record.headers) is not None for record in world.arrived())


@pytest.mark.parametrize("fault", [None, *get_args(Fault)])
def test_a_word_goes_with_the_next_transaction_though_nothing_is_due(fault: Fault | None) -> None:
    """A session that ends takes it along; the next minute's word says the same."""
    world = World(faults=[] if fault is None else [fault])
    world.join().forwarder.tell(Send(OUTCOMES, -1, b"k", b"word", ()))
    world.run(1_000)
    assert [record.value for record in world.arrived(OUTCOMES)] == [b"word"] * (fault != "lost before")
