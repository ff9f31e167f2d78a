"""The algebra of windows: which window an event joins, and when a window may be decided.

Pure: contacts and events in, contacts changed, nothing else touched. Windows are anchored at a
conversation's first event, closed by event time, timed by the wall clock (spec/dispatch.md, step 3).
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass
from typing import Literal

from streams.contact import Contact, Window, WindowEvent, WindowName, identity
from streams.events import Event
from streams.media import CEILING_MS

RECENT_MS = 15 * 60 * 1000
RECENT_COUNT = 256
IDLE_MS = 15 * 60 * 1000
SUPERSEDED_MS = 24 * 3600 * 1000
"""How long it is remembered that a conversation was superseded and never had its job since."""


@dataclass(frozen=True, slots=True)
class WindowRule:
    """How windows of one conversation are cut: lengths in ms, already clamped."""

    length_ms: int
    mode: Literal["fixed", "sliding"] = "fixed"
    max_wait_ms: int = 30_000
    max_events: int = 100


Taken = Literal["duplicate", "joined", "opened"]


def take_in(
    contact: Contact,
    event: Event,
    rule: WindowRule,
    taken: Container[WindowName],
    now_ms: int,
    outcomes_end: int = 0,
    newest_ms: int = 0,
) -> tuple[Taken, Window | None]:
    """Put an event into its window; `rule` counts when it opens one, `taken` are the windows being decided.

    `newest_ms` is the latest event time applied from the partition before this event: a window whose deadline
    lies below it is over, whether it was decided already or only will be. So the log alone says where a late
    event goes, not the size of the batches in which it is read.

    An event that the contact has seen, or that any of its windows holds, changes nothing, whatever its
    replay number (spec/dispatch.md, step 2 and Replays). `outcomes_end` is the end of the partition's
    outcomes now: what a replayed event's first life had to say stands below it.
    """
    if event.offset > contact.offset:
        contact.offset = event.offset
    contact.touched_ms = now_ms
    if _holds(contact, event) or identity(event.event_id, event.replay) in contact.recent:
        return "duplicate", None
    member = WindowEvent(
        event.event_id,
        event.message_id,
        event.session_id,
        event.offset,
        event.time_ms,
        event.replay,
        event.attempts,
    )
    window = _window_for(contact, event, taken, newest_ms)
    after_offset = outcomes_end if event.replay and not event.again else -1
    if window is not None:
        window.events.append(member)
        window.after_offset = max(window.after_offset, after_offset)
        if window.sliding_until_ms:
            extended = min(event.time_ms + window.length_ms, window.sliding_until_ms)
            window.deadline_ms = max(window.deadline_ms, extended)
        return "joined", window
    sliding = rule.mode == "sliding" and rule.length_ms > 0
    window = Window(
        conversation_id=event.conversation_id,
        events=[member],
        deadline_ms=event.time_ms + (min(rule.length_ms, rule.max_wait_ms) if sliding else rule.length_ms),
        length_ms=rule.length_ms,
        max_events=rule.max_events,
        max_wait_ms=rule.max_wait_ms,
        sliding_until_ms=event.time_ms + rule.max_wait_ms if sliding else 0,
        again=event.again,
        after_offset=after_offset,
    )
    contact.windows.append(window)
    return "opened", window


def _holds(contact: Contact, event: Event) -> bool:
    """Whether a window has the event already: under any replay number, or (again) under the same."""
    event_id = event.event_id
    for window in contact.windows:
        for member in window.events:
            if member.event_id == event_id and (not event.again or member.replay == event.replay):
                return True
    return False


def _window_for(
    contact: Contact, event: Event, taken: Container[WindowName], newest_ms: int
) -> Window | None:
    """The oldest window of the event's conversation that still takes it."""
    if event.again:
        return None
    reached_ms = max(event.time_ms, newest_ms)
    for window in contact.windows:
        if (
            window.conversation_id == event.conversation_id
            and window.state in ("open", "media")
            and reached_ms <= accepts_until(window)
            and window.length_ms > 0
            and len(window.events) < window.max_events
            and not window.again
            and (event.key, window.id) not in taken
        ):
            return window
    return None


def accepts_until(window: Window) -> int:
    """Event time up to which, inclusive, the window takes events: its deadline, or its media ceiling."""
    return window.deadline_ms + CEILING_MS if window.state == "media" else window.deadline_ms


def full(window: Window) -> bool:
    """A window that holds all the events it may is due at once."""
    return len(window.events) >= window.max_events


def remaining_ms(window: Window, now_ms: int) -> int:
    """How long, by the wall clock, until the window is due; 0 = now.

    Never longer than the window's own length, whatever the clocks of others say (step 3, *Time*).
    """
    if window.state == "frozen" or (window.state == "open" and full(window)):
        return 0
    if window.state == "open":
        longest = max(window.length_ms, window.sliding_until_ms - window.events[0].time_ms)
        return min(max(window.deadline_ms - now_ms, 0), longest)
    return max(window.look_at_ms - now_ms, 0)


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a source partition is: what `closes` needs to know of it."""

    applied: int | None
    """Every record below is in the contacts' state; None = unknown."""
    newest_event_ms: int
    """Latest event time applied from this partition since it was taken over; 0 = none."""
    written_below: int = 0
    """The sink's next offset in this partition of the outcomes; 0 = unknown."""


def closes(window: Window, progress: Progress, noted_end: int | None) -> bool:
    """Whether a window whose deadline passed by the clock may be decided.

    `noted_end` is the partition's last stable offset as the newest fetch answer told it when the deadline
    passed, noted once; None = no fetch answer since the assignment. So a backlog gives the same windows
    as live traffic (step 3, *Time*). Looks again (media, retry) and full windows don't wait for the log.
    A window with a replayed event waits until stop 0 can see what came of the event before (Replays).
    """
    if window.state == "frozen":
        return True
    if window.after_offset > progress.written_below:
        return False
    if window.state != "open" or full(window):
        return True
    if progress.newest_event_ms > window.deadline_ms:
        return True
    return noted_end is not None and progress.applied is not None and progress.applied >= noted_end


def find(contact: Contact, window_id: str) -> Window | None:
    """The contact's window of that id."""
    for window in contact.windows:
        if window.id == window_id:
            return window
    return None


def drop(contact: Contact, window: Window, outcome_offset: int, now_ms: int) -> None:
    """Forget a window that was sent; its events stay known by identity until their outcome is in Postgres."""
    contact.windows = [other for other in contact.windows if other is not window]
    contact.touched_ms = now_ms
    members = window.events
    if window.frozen is not None and window.frozen.deduplicated:
        members = members + [member for member, _ in window.frozen.deduplicated]
    for member in members:
        contact.recent[identity(member.event_id, member.replay)] = (now_ms, outcome_offset)


def prune(contact: Contact, written_below: int, now_ms: int) -> None:
    """Forget events seen long ago (15 min, at most 256) whose outcomes the sink has written.

    `written_below` is the sink's next offset in this partition of the outcomes; 0 = unknown, keep all.
    """
    excess = len(contact.recent) - RECENT_COUNT
    oldest = now_ms - RECENT_MS
    gone = []
    for index, (name, (seen_ms, outcome_offset)) in enumerate(contact.recent.items()):
        if index >= excess and seen_ms >= oldest:
            break
        if 0 <= outcome_offset < written_below:
            gone.append(name)
    for name in gone:
        del contact.recent[name]


def forgettable(contact: Contact, written_below: int, now_ms: int) -> bool:
    """Whether forgetting the contact would miss nothing: idle, no window, all outcomes written."""
    return (
        not contact.windows
        and contact.touched_ms <= now_ms - IDLE_MS
        and all(since_ms <= now_ms - SUPERSEDED_MS for since_ms in contact.superseded.values())
        and all(0 <= outcome_offset < written_below for _, outcome_offset in contact.recent.values())
    )
