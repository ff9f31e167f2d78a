"""A table's state covers a growing prefix of its changelog and never goes back."""

from __future__ import annotations

import random
from typing import NamedTuple

import pytest

from streams.transport import NotOwned
from streams.transport.state import State
from streams.transport.token import HEADER, MARKER, Token

KEYS = [b"a", b"b", b"c", b"d"]


class Change(NamedTuple):
    offset: int
    key: bytes
    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


def changes(start, *pairs):
    return [Change(start + i, key, value) for i, (key, value) in enumerate(pairs)]


@pytest.fixture
def state():
    state = State(bytes.decode)
    state.assign([0, 1])
    for partition in (0, 1):
        state.at(partition).claim(generation=1)
    return state


def test_recovery_applies_records_in_order_and_deletes_by_tombstones(state):
    first = changes(0, (b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"b", None), (b"never", None))
    assert state.apply(0, 0, 5, True, first)
    assert dict(state.items(0)) == {b"a": "3"}
    assert (state.get(b"a"), state.get(b"a", 0), state.get(b"a", 1), state.get(b"b")) == (
        "3",
        "3",
        None,
        None,
    )
    assert len(state) == 1


def test_an_empty_state_accepts_only_the_range_where_reading_began(state):
    assert not state.apply(0, 5, 6, False, changes(5, (b"a", b"1")))
    assert state.apply(0, 5, 6, True, changes(5, (b"a", b"1")))
    assert not state.apply(0, 8, 9, False, changes(8, (b"a", b"2"))), "a gap"
    assert state.apply(0, 6, 9, False, changes(8, (b"a", b"2"))), "compaction leaves holes inside a range"
    assert state.at(0).covered == 9


def test_what_is_covered_is_not_applied_again(state):
    state.apply(0, 0, 3, True, changes(0, (b"a", b"1"), (b"b", b"2"), (b"a", None)))
    assert state.apply(0, 0, 4, False, changes(0, (b"a", b"1"), (b"b", b"2"), (b"a", None), (b"c", b"3")))
    assert dict(state.items(0)) == {b"b": "2", b"c": "3"}


def test_a_partition_that_is_not_assigned_takes_nothing(state):
    assert not state.apply(7, 0, 1, True, changes(0, (b"a", b"1")))
    with pytest.raises(NotOwned, match=r"partition 7 is not ours \(owned: \[0, 1\]\)"):
        state.put(b"a", "1", 7)
    assert list(state.items(7)) == []
    assert state.get(b"a", 7) is None


def test_nothing_is_put_before_recovery_or_between_two_assignments(state):
    fresh = State(bytes.decode)
    fresh.assign([0])
    with pytest.raises(NotOwned, match="partition 0 isn't recovered yet"):
        fresh.put(b"a", "1", 0)
    state.apply(0, 0, 1, True, changes(0, (b"a", b"1")))
    state.assign([0])
    assert state.get(b"a") == "1"
    with pytest.raises(NotOwned):
        state.put(b"a", "2", 0)


def test_put_is_seen_at_once_and_flushed_once(state):
    state.put(b"a", "1", 0)
    state.put(b"a", "2", 0)
    state.put(b"b", "x", 1)
    state.put(b"b", None, 1)
    assert (state.get(b"a"), state.get(b"b")) == ("2", None)
    assert state.is_dirty
    taken = state.take_dirty()
    assert not state.is_dirty
    assert {p: list(keys) for p, (_, keys) in taken.items()} == {0: [b"a"], 1: [b"b"]}
    assert state.take_dirty() == {}


def test_the_same_key_in_two_partitions_has_two_values(state):
    state.put(b"a", "zero", 0)
    state.put(b"a", "one", 1)
    assert (state.get(b"a", 0), state.get(b"a", 1)) == ("zero", "one")
    assert len(state) == 2


def test_partitions_that_stay_keep_their_state_and_others_are_forgotten(state):
    state.apply(0, 0, 1, True, changes(0, (b"a", b"1")))
    state.apply(1, 0, 1, True, changes(0, (b"b", b"2")))
    assert state.assign([1, 2]) == {2}
    assert (state.get(b"a"), state.get(b"b")) == (None, "2")
    assert state.assign([0, 1]) == {0}, "a partition that comes back starts empty"
    assert list(state.items(0)) == []


def test_a_followed_partition_is_read_but_neither_shown_nor_written_and_can_become_ours(state):
    state.assign([0], followed=[1])
    assert state.apply(1, 0, 2, True, changes(0, (b"a", b"1"), (b"b", b"2")))
    assert (state.get(b"a"), state.get(b"a", 1), list(state.items(1)), len(state)) == (None, None, [], 0)
    with pytest.raises(NotOwned):
        state.put(b"a", "x", 1)
    assert state.assign([0, 1]) == {0}, "0 was never read"
    assert (state.get(b"a"), state.at(1).covered) == ("1", 2)
    assert state.assign([], followed=[1]) == set()
    assert state.apply(1, 2, 3, False, changes(2, (b"a", b"3")))
    assert dict(state.find(1).values.items()) == {b"a": "3", b"b": "2"}


def test_a_worker_that_was_thrown_out_keeps_only_what_it_followed(state):
    state.assign([0], followed=[1])
    for partition in (0, 1):
        state.apply(partition, 0, 1, True, changes(0, (b"a", b"1")))
    state.forget_owned()
    assert state.assign([0, 1]) == {0}


def test_a_log_whose_beginning_was_deleted_behind_us_is_all_that_counts(state):
    state.apply(0, 0, 2, True, changes(0, (b"a", b"1"), (b"b", b"2")))
    assert not state.apply(0, 5, 6, False, changes(5, (b"c", b"3"))), "lost on the way"
    assert state.apply(0, 5, 6, True, changes(5, (b"c", b"3")))
    assert (dict(state.items(0)), state.at(0).covered) == ({b"c": "3"}, 6)


def test_state_that_was_never_flushed_is_read_again(state):
    state.apply(0, 0, 1, True, changes(0, (b"a", b"1")))
    state.put(b"a", "ahead of the changelog", 0)
    assert state.assign([0, 1]) == {0, 1}
    assert state.get(b"a") is None
    assert state.take_dirty() == {}


def test_late_writes_of_a_replaced_owner_are_ignored_and_markers_are_no_keys(state):
    old, new = [(HEADER, Token(0, 4).encode())], [(HEADER, Token(0, 7).encode())]
    log = [
        Change(0, b"a", b"old", old),
        Change(1, b"b", b"old", old),
        Change(2, MARKER, b"", new),
        Change(3, b"a", b"late", old),
        Change(4, b"b", None, old),
        Change(5, b"b", b"new", new),
        Change(6, b"c", b"by a tool, without token"),
    ]
    assert state.apply(0, 0, 4, True, log[:4])
    assert state.apply(0, 4, 7, False, log[4:])
    assert dict(state.items(0)) == {b"a": "old", b"b": "new", b"c": "by a tool, without token"}
    assert state.late_writes == 2


def test_late_writes_never_win_wherever_they_land_and_whoever_reads():
    """Owners follow each other, a group begins anew, replaced ones write late; all readers agree."""
    for seed in range(200):
        dice = random.Random(seed)
        log, true, replaced, generation = [], {}, [], 0
        for _ in range(dice.randint(1, 6)):
            generation = 1 if dice.random() < 0.2 else generation + dice.randint(1, 3)  # or deleted: anew
            owner = State(bytes)
            owner.assign([0])
            assert owner.apply(0, 0, len(log), True, log) or not log
            assert dict(owner.items(0)) == {k: v for k, v in true.items() if v is not None}, seed
            owner.at(0).claim(generation)
            headers = owner.at(0).headers
            log.append(Change(len(log), MARKER, b"", headers))
            for _ in range(dice.randint(0, 12)):
                key, value = dice.choice(KEYS), dice.choice([None, b"%d" % dice.randrange(100)])
                if replaced and dice.random() < 0.3:
                    log.append(Change(len(log), key, b"late", dice.choice(replaced)))
                else:
                    log.append(Change(len(log), key, value, headers))
                    true[key] = value
            replaced.append(headers)
        expected = {key: value for key, value in true.items() if value is not None}
        follower, position = State(bytes), 0
        follower.assign([], followed=[0])
        while position < len(log):
            end = min(len(log), position + dice.randint(1, 9))
            assert follower.apply(0, position, end, position == 0, log[position:end])
            position = end
        assert dict(follower.find(0).values.items()) == expected, seed


def test_an_owner_claims_a_token_above_all_that_it_read(state):
    state.apply(0, 0, 1, True, [Change(0, b"a", b"1", [(HEADER, Token(2, 9).encode())])])
    state.at(0).claim(generation=12)
    assert state.at(0).headers == [(HEADER, Token(2, 12).encode())]
    state.at(0).claim(generation=3)  # the group was deleted and began anew
    assert state.at(0).headers == [(HEADER, Token(3, 3).encode())]
    state.at(1).claim(generation=5)
    assert state.at(1).headers == [(HEADER, Token(0, 5).encode())]


def test_any_cutting_and_repeating_of_a_changelog_gives_the_same_state():
    """Rebalances cut recovery anywhere, repeat ranges, and hand over older ones late."""
    for seed in range(300):
        dice = random.Random(seed)
        keys = [b"a", b"b", b"c", b"d"]
        log = [
            Change(offset, dice.choice(keys), dice.choice([None, b"%d" % offset]))
            for offset in range(60)
            if dice.random() < 0.8
        ]
        expected = {}
        for change in log:
            expected[change.key] = change.value
        state = State(bytes)
        state.assign([0])
        position = 0
        while position < 60:
            if dice.random() < 0.1:
                state.assign([0])
                position = state.at(0).covered or 0
            start = position if dice.random() < 0.8 else max(0, position - dice.randint(1, 20))
            end = min(60, start + dice.randint(1, 15))
            part = [change for change in log if start <= change.offset < end]
            assert state.apply(0, start, end, start == 0, part)
            position = max(position, end)
        assert dict(state.items(0)) == {k: v for k, v in expected.items() if v is not None}, seed
