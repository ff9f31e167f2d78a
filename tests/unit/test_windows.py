"""Windows: anchored at the first event, closed by event time, never by luck (spec/dispatch.md, step 3)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.contact import Contact, Window, decode_contact, encode_contact
from streams.media import CEILING_MS
from streams.windows import (
    IDLE_MS,
    RECENT_COUNT,
    RECENT_MS,
    SUPERSEDED_MS,
    Progress,
    WindowRule,
    accepts_until,
    closes,
    drop,
    forgettable,
    prune,
    remaining_ms,
    take_in,
)
from tests.unit.builders import event, uid

T0 = 1_000_000
FIXED = WindowRule(8_000)
SLIDING = WindowRule(5_000, mode="sliding", max_wait_ms=30_000)


def put(contact: Contact, *times: int, rule: WindowRule = FIXED, conversation: str = "c1") -> Contact:
    """Events of one conversation at these times after T0."""
    for at in times:
        number = contact.offset + 1
        take_in(
            contact,
            event(f"e{number}", at=T0 + at, offset=number, conversation=conversation),
            rule,
            (),
            T0 + at,
        )
    return contact


def shape(contact: Contact) -> list[list[int]]:
    """Event times, after T0, by window."""
    return [[member.time_ms - T0 for member in window.events] for window in contact.windows]


def test_a_burst_is_one_window_anchored_at_its_first_event() -> None:
    contact = put(Contact("t"), 0, 1_000, 7_999)
    assert shape(contact) == [[0, 1_000, 7_999]]
    assert contact.windows[0].deadline_ms == T0 + 8_000


def test_past_the_deadline_means_later_than_not_equal() -> None:
    assert shape(put(Contact("t"), 0, 8_000, 8_001)) == [[0, 8_000], [8_001]]


def test_one_window_per_conversation() -> None:  # the reference absorbs other conversations: b097, b103
    contact = put(put(Contact("t"), 0, conversation="c1"), 1, conversation="c2")
    assert [window.conversation_id for window in contact.windows] == [uid("c1"), uid("c2")]


def test_a_late_event_joins_the_window_its_time_belongs_to_while_it_is_open() -> None:
    assert shape(put(Contact("t"), 0, 9_000, 4_000)) == [[0, 4_000], [9_000]]


def test_a_late_event_joins_no_window_whose_deadline_the_log_has_passed() -> None:
    """Decided already or not: in a batch of one it was, in a batch of a thousand it will be."""
    contact = put(Contact("t"), 0, 1_000)
    late = event("late", at=T0 + 2_000, offset=9)
    assert take_in(contact, late, FIXED, (), T0 + 9_000, newest_ms=T0 + 8_000)[0] == "joined"
    later = event("later", at=T0 + 2_000, offset=10)
    assert take_in(contact, later, FIXED, (), T0 + 9_000, newest_ms=T0 + 8_001)[0] == "opened"
    assert shape(contact) == [[0, 1_000, 2_000], [2_000]]


def test_a_window_of_length_zero_takes_no_second_event() -> None:  # b089
    assert shape(put(Contact("t"), 0, 0, rule=WindowRule(0))) == [[0], [0]]


def test_the_deadline_stands_in_the_window_whatever_rule_comes_later() -> None:
    contact = put(Contact("t"), 0)
    put(contact, 1_000, rule=WindowRule(60_000))
    assert contact.windows[0].deadline_ms == T0 + 8_000


def test_a_full_window_is_due_at_once_and_takes_no_more() -> None:
    contact = put(Contact("t"), 0, 1, 2, rule=WindowRule(8_000, max_events=2))
    assert shape(contact) == [[0, 1], [2]]
    assert remaining_ms(contact.windows[0], T0 + 2) == 0


def test_sliding_extends_by_each_event_up_to_max_wait() -> None:  # BR-26
    contact = put(Contact("t"), *range(0, 40_000, 4_000), rule=SLIDING)
    assert shape(contact)[0] == list(range(0, 30_001, 4_000))
    assert contact.windows[0].deadline_ms == T0 + 30_000


def test_sliding_closes_after_quiet() -> None:
    assert shape(put(Contact("t"), 0, 4_000, 9_001, rule=SLIDING)) == [[0, 4_000], [9_001]]


def test_a_window_that_waits_for_media_takes_events_up_to_its_ceiling() -> None:
    contact = put(Contact("t"), 0)
    contact.windows[0].state = "media"
    put(contact, 100_000, 8_000 + CEILING_MS, 8_001 + CEILING_MS)
    assert shape(contact) == [[0, 100_000, 8_000 + CEILING_MS], [8_001 + CEILING_MS]]


def test_taken_retried_and_frozen_windows_absorb_nothing() -> None:  # b096: a retry never absorbs
    for state in ("retry", "frozen"):
        contact = put(Contact("t"), 0)
        contact.windows[0].state = state
        assert len(put(contact, 1).windows) == 2
    contact = put(Contact("t"), 0)
    late = event("late", at=T0 + 1, offset=9)
    take_in(contact, late, FIXED, {(late.key, contact.windows[0].id)}, T0 + 1)
    assert len(contact.windows) == 2


def test_the_same_event_changes_nothing() -> None:
    contact = put(Contact("t"), 0)
    again = event("e0", at=T0 + 5, offset=5)
    assert take_in(contact, again, FIXED, (), T0 + 5) == ("duplicate", None)
    drop(contact, contact.windows[0], 3, T0 + 9_000)
    assert take_in(contact, again, FIXED, (), T0 + 9_001) == ("duplicate", None)


def test_an_event_in_a_window_changes_nothing_whatever_its_replay_number() -> None:
    contact = put(Contact("t"), 0)
    assert take_in(contact, event("e0", at=T0 + 5, offset=5, replay=77), FIXED, (), T0)[0] == "duplicate"


def test_a_replayed_event_opens_a_window_once_the_first_is_gone() -> None:
    contact = put(Contact("t"), 0)
    drop(contact, contact.windows[0], 3, T0)
    assert take_in(contact, event("e0", at=T0 + 5, offset=5, replay=77), FIXED, (), T0)[0] == "opened"
    assert take_in(contact, event("e0", at=T0 + 5, offset=6, replay=77), FIXED, (), T0)[0] == "duplicate"


def test_again_never_shares_a_window() -> None:
    contact = put(Contact("t"), 0)
    take_in(contact, event("e0", at=T0 + 1, offset=5, replay=77, again=True), FIXED, (), T0)
    put(contact, 2)
    assert shape(contact) == [[0, 2], [1]]


# -- closing


def open_window(**changes: object) -> Window:
    window = put(Contact("t"), 0).windows[0]
    for name, value in changes.items():
        setattr(window, name, value)
    return window


def test_an_idle_partition_closes_at_once() -> None:  # BR-20: no other traffic is needed
    assert closes(open_window(), Progress(applied=5, newest_event_ms=T0), noted_end=5)


def test_a_backlog_is_applied_before_a_window_closes() -> None:
    assert not closes(open_window(), Progress(applied=4, newest_event_ms=T0), noted_end=5)


def test_an_event_past_the_deadline_closes_equal_does_not() -> None:
    assert closes(open_window(), Progress(applied=4, newest_event_ms=T0 + 8_001), noted_end=5)
    assert not closes(open_window(), Progress(applied=4, newest_event_ms=T0 + 8_000), noted_end=5)


def test_before_the_first_fetch_answer_nothing_closes() -> None:
    assert not closes(open_window(), Progress(applied=5, newest_event_ms=0), noted_end=None)
    assert not closes(open_window(), Progress(applied=None, newest_event_ms=0), noted_end=5)


def test_looks_again_dont_wait_for_the_log() -> None:
    for state in ("media", "retry", "frozen"):
        assert closes(open_window(state=state), Progress(applied=None, newest_event_ms=0), noted_end=None)


@given(st.integers(-(10**9), 10**9))
def test_no_clock_makes_a_window_longer_than_its_length(skew: int) -> None:
    assert 0 <= remaining_ms(open_window(), T0 + skew) <= 8_000


# -- what is remembered


def test_recent_ids_are_kept_until_the_sink_has_written_their_outcome() -> None:
    contact = put(Contact("t"), 0)
    drop(contact, contact.windows[0], 10, T0)
    later = T0 + RECENT_MS + 1
    prune(contact, 10, later)
    assert len(contact.recent) == 1
    assert not forgettable(contact, 10, later + IDLE_MS)
    prune(contact, 11, later)
    assert not contact.recent
    assert forgettable(contact, 11, later + IDLE_MS)


def test_at_most_256_recent_ids_of_written_outcomes() -> None:
    contact = put(Contact("t"), *range(RECENT_COUNT + 40), rule=WindowRule(0))
    for window in list(contact.windows):
        drop(contact, window, 1, T0)
    prune(contact, 2, T0)
    assert len(contact.recent) == RECENT_COUNT
    prune(contact, 0, T0 + 10 * RECENT_MS)
    assert len(contact.recent) == RECENT_COUNT, "unknown means keep"


def test_that_a_conversation_was_superseded_is_remembered_for_a_day() -> None:
    contact = Contact("t", superseded={uid("c1"): T0}, touched_ms=T0)
    assert not forgettable(contact, 10**9, T0 + 2 * IDLE_MS)
    assert forgettable(contact, 10**9, T0 + SUPERSEDED_MS)


def test_a_contact_with_a_window_is_never_forgotten() -> None:
    assert not forgettable(put(Contact("t"), 0), 10**9, T0 + 10 * IDLE_MS)


@pytest.mark.thorough
@given(
    st.lists(st.integers(0, 60_000), min_size=1, max_size=30),
    st.sampled_from([FIXED, SLIDING, WindowRule(0), WindowRule(1_000, max_events=3)]),
)
def test_every_event_is_in_exactly_one_window_and_inside_its_bounds(
    times: list[int], rule: WindowRule
) -> None:
    contact = put(Contact("t"), *times, rule=rule)
    members = [member.event_id for window in contact.windows for member in window.events]
    assert sorted(members) == sorted(uid(f"e{number}") for number in range(len(times)))
    for window in contact.windows:
        assert len(window.events) <= rule.max_events
        assert all(member.time_ms <= accepts_until(window) for member in window.events)
        assert [member.offset for member in window.events] == sorted(
            member.offset for member in window.events
        )
    assert decode_contact(encode_contact(contact)) == contact


@pytest.mark.thorough
@given(st.lists(st.integers(0, 60_000), min_size=1, max_size=30).map(sorted))
def test_live_and_backlog_give_the_same_windows(times: list[int]) -> None:
    live, backlog = Contact("t"), Contact("t")
    for number, at in enumerate(times):
        one = event(f"e{number}", at=T0 + at, offset=number)
        take_in(live, one, FIXED, (), T0 + at)
        take_in(backlog, one, FIXED, (), T0 + 3_600_000)
    assert shape(live) == shape(backlog)
