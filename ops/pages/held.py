"""What the worker holds, folded from its changelogs: open windows and lanes, nothing that ended (pure)."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from streams.contact import Window, decode_contact
from streams.contact_jobs import PAUSES, decode_jobs
from streams.heads import Head, State
from streams.identifiers import canonical_row_id
from web.pages.told import Lane, OpenWindow

MOST_CONTACTS: Final = 50_000
"""Contacts that are kept of each table; of further ones it is only known that they are there."""
SHOWN: Final = 100
MOST_EVENTS: Final = 50
MINUTES: Final = 30


@dataclass(frozen=True, slots=True)
class Came:
    """A record of an event topic; times in Unix ms."""

    event_id: str
    organization_id: str
    contact_id: str | None
    kind: str
    at_ms: int


@dataclass(slots=True)
class Arrivals:
    """The newest events of one organization, or of all."""

    newest: deque[Came] = field(default_factory=lambda: deque(maxlen=MOST_EVENTS))
    minutes: dict[int, int] = field(default_factory=dict)
    """Minute since 1970 → events."""

    def add(self, came: Came) -> None:
        """One more."""
        self.newest.appendleft(came)
        minute = came.at_ms // 60_000
        self.minutes[minute] = self.minutes.get(minute, 0) + 1
        if len(self.minutes) > 2 * MINUTES:
            for old in sorted(self.minutes)[:-MINUTES]:
                del self.minutes[old]

    def counts(self, now_ms: int) -> list[int]:
        """Of each of the last minutes, oldest first."""
        last = now_ms // 60_000
        return [self.minutes.get(minute, 0) for minute in range(last - MINUTES + 1, last + 1)]


class Held:
    """The windows and lanes of all contacts that have some."""

    def __init__(self, most: int = MOST_CONTACTS) -> None:
        self._most = most
        self._windows: dict[bytes, tuple[OpenWindow, ...]] = {}
        self._lanes: dict[bytes, Lane] = {}
        self.left_out = False
        """There were more contacts than are kept."""

    def contact(self, key: bytes, value: bytes | None) -> None:
        """The newest record of a contact's windows; what can't be read is left out."""
        found = _windows(key, value)
        if not found:
            self._windows.pop(key, None)
        elif self._has_room(self._windows, key):
            self._windows[key] = found

    def jobs(self, key: bytes, value: bytes | None) -> None:
        """The newest record of a contact's jobs."""
        lane = _lane(key, value) if key != PAUSES else None
        if lane is None:
            self._lanes.pop(key, None)
        elif self._has_room(self._lanes, key):
            self._lanes[key] = lane

    def windows(self, whose: str | None) -> tuple[list[OpenWindow], int]:
        """Those that close soonest, and how many there are."""
        found = [
            one for some in self._windows.values() for one in some if whose in (None, one.organization_id)
        ]
        return heapq.nsmallest(SHOWN, found, key=lambda one: (one.deadline_ms, one.contact_id)), len(found)

    def lanes(self, whose: str | None) -> tuple[list[Lane], int]:
        """The fullest, and how many there are."""
        found = [one for one in self._lanes.values() if whose in (None, one.organization_id)]
        shown = heapq.nsmallest(SHOWN, found, key=lambda one: (-_jobs(one), one.oldest_ms, one.who))
        return shown, len(found)

    def _has_room(self, table: Mapping[bytes, object], key: bytes) -> bool:
        if key in table or len(table) < self._most:
            return True
        self.left_out = True
        return False


def _jobs(lane: Lane) -> int:
    return lane.running + lane.waiting + lane.delayed + lane.held


def _whose(key: bytes) -> tuple[str, str] | None:
    organization, colon, who = key.decode(errors="replace").partition(":")
    organization_id = canonical_row_id(organization)
    return (organization_id, who) if organization_id is not None and colon else None


def _windows(key: bytes, value: bytes | None) -> tuple[OpenWindow, ...]:
    whose = _whose(key)
    if not value or whose is None:
        return ()
    try:
        contact = decode_contact(value)
    except (msgspec.DecodeError, RecursionError):
        return ()
    return tuple(_window(*whose, window) for window in contact.windows)


def _window(organization_id: str, contact_id: str, window: Window) -> OpenWindow:
    waits = window.state in ("media", "retry")
    return OpenWindow(
        organization_id=organization_id,
        contact_id=contact_id,
        conversation_id=window.conversation_id,
        state=window.state,
        messages=len(window.events),
        deadline_ms=window.look_at_ms if waits else window.deadline_ms,
    )


def _lane(key: bytes, value: bytes | None) -> Lane | None:
    whose = _whose(key)
    if not value or whose is None:
        return None
    try:
        heads = decode_jobs(value).heads
    except (msgspec.DecodeError, RecursionError):
        return None
    live = sorted(
        (
            (job_id, head)
            for job_id, head in heads.items()
            if not head.state.ended and head.state != State.AWAITED
        ),
        key=_rank,
    )
    if not live:
        return None
    states = [head.state for _, head in live]
    organization_id, who = whose
    return Lane(
        organization_id=organization_id,
        who=who,
        is_phone=canonical_row_id(who) is None,
        running=states.count(State.RUNNING),
        waiting=states.count(State.WAITING) + states.count(State.UNVERIFIED),
        delayed=states.count(State.DELAYED),
        held=states.count(State.HELD),
        oldest_ms=min((head.origin.timestamp for _, head in live if head.origin is not None), default=0),
        first=live[0][0],
    )


def _rank(one: tuple[str, Head]) -> tuple[bool, int]:
    """The running one first, then in the order in which they came."""
    return one[1].state != State.RUNNING, one[1].order
