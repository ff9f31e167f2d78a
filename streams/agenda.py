"""The agenda: which windows are due now, by the clock and by the log (spec/dispatch.md, step 3, *Time*).

A window whose deadline passed by the clock is *held* until its partition's log is applied up to where it
stood then, so that a backlog is cut into the same windows as live traffic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from streams.contact import Contact, Window, WindowName
from streams.identifiers import key_parts
from streams.ports import Contacts, Source
from streams.timers import Timer, Timers
from streams.windows import Progress, closes, find, remaining_ms

MAX_DUE: Final = 500
"""Windows that one cycle decides at most: bounds the statement and how long a cycle holds the loop."""


@dataclass(slots=True, frozen=True)
class Clocks:
    """The two clocks: timers run on the monotonic one (s), records carry the wall's (ms)."""

    monotonic: Callable[[], float]
    wall_ms: Callable[[], int]


@dataclass(slots=True)
class Due:
    """One window that is due."""

    timer: Timer
    contact: Contact
    window: Window
    known: Sequence[tuple[str, str | None]] = ()
    """Of its events, those that its decision found to have an outcome, each with its job."""

    @property
    def key(self) -> bytes:
        """The contact's key."""
        return self.timer.key

    @property
    def partition(self) -> int:
        """The contact's partition."""
        return self.timer.partition

    def named(self) -> dict[str, str | int]:
        """What a log line about the window says of where it belongs."""
        return {"window": self.window.id, "contact_id": key_parts(self.key)[1], "partition": self.partition}


@dataclass(slots=True)
class _Held:
    """Due by the clock, waits until its partition's log is applied up to `noted_end`."""

    timer: Timer
    noted_end: int | None


class Agenda:
    """Timers and held windows of the partitions that are owned."""

    def __init__(
        self, contacts: Contacts, source: Source, clocks: Clocks, written_below: Callable[[int], int]
    ) -> None:
        self._contacts = contacts
        self._source = source
        self._clocks = clocks
        self._written_below = written_below
        self._timers = Timers()
        self._held: dict[int, list[_Held]] = {}
        self._newest_ms: dict[int, int] = {}
        self.taken: set[WindowName] = set()
        """The windows that are being decided: they take no more events and come up no second time."""

    def rebuild(self, partitions: Iterable[int]) -> int:
        """Forget everything, then schedule every window of these partitions; returns how many there are."""
        found = 0
        self._timers.clear()
        self._held.clear()
        self._newest_ms.clear()
        for partition in partitions:
            for key, contact in self._contacts.partition_items(partition):
                for window in contact.windows:
                    self.schedule(key, partition, window)
                    found += 1
        return found

    def schedule(self, key: bytes, partition: int, window: Window) -> None:
        """Look at a window when it is due; the wait is measured once, then the monotonic clock counts."""
        wait_ms = remaining_ms(window, self._clocks.wall_ms())
        self._timers.add(self._clocks.monotonic() + wait_ms / 1000, partition, key, window)

    def put_back(self, due: Iterable[Due], wait_s: float) -> None:
        """Look at these windows again after a while, unchanged."""
        at = self._clocks.monotonic() + wait_s
        for one in due:
            self._timers.put_back(one.timer, at)

    def applied(self, partition: int, newest_event_ms: int) -> bool:
        """Records of a partition were applied; True when windows are waiting for that."""
        self._newest_ms[partition] = max(self._newest_ms.get(partition, 0), newest_event_ms)
        return bool(self._held.get(partition))

    def newest_ms(self, partition: int) -> int:
        """Latest event time applied from a partition since it was taken over; 0 = none."""
        return self._newest_ms.get(partition, 0)

    def next_due(self) -> float | None:
        """When the next timer is due (s, monotonic); None = none is set."""
        return self._timers.next_due()

    def holds(self) -> bool:
        """Whether windows are due by the clock and wait for the log."""
        return any(self._held.values())

    def take(self) -> list[Due]:
        """The windows to decide or to send now; each is marked as taken until `release`."""
        due = self._take_held()
        for timer in self._timers.pop_due(self._clocks.monotonic(), MAX_DUE - len(due)):
            found = self._current(timer)
            if found is None:
                continue
            later_ms = timer.early_by_ms(found.window)
            if later_ms > 0:
                self._timers.put_back(timer, timer.due + later_ms / 1000, timer.until_ms + later_ms)
                continue
            noted_end = self._source.stable_end(timer.partition)
            if closes(found.window, self._progress(timer.partition), noted_end):
                self._mark(found, due)
            else:
                self._held.setdefault(timer.partition, []).append(_Held(timer, noted_end))
        return due

    def release(self) -> None:
        """The windows that were taken are decided, sent, or put back."""
        self.taken.clear()

    def _take_held(self) -> list[Due]:
        due: list[Due] = []
        for partition, waiting in self._held.items():
            progress = self._progress(partition)
            still = []
            for held in waiting:
                if held.noted_end is None:
                    held.noted_end = self._source.stable_end(partition)
                found = self._current(held.timer)
                if found is None:
                    continue
                if len(due) < MAX_DUE and closes(found.window, progress, held.noted_end):
                    self._mark(found, due)
                else:
                    still.append(held)
            self._held[partition] = still
        return due

    def _current(self, timer: Timer) -> Due | None:
        """What a timer stands for, or None when the window has moved on."""
        contact = self._contacts.get(timer.key, timer.partition)
        window = find(contact, timer.window_id) if contact is not None else None
        if contact is None or window is None or timer.stale(window):
            return None
        if (timer.key, window.id) in self.taken:
            return None
        return Due(timer, contact, window)

    def _mark(self, found: Due, due: list[Due]) -> None:
        self.taken.add((found.key, found.window.id))
        due.append(found)

    def _progress(self, partition: int) -> Progress:
        return Progress(
            self._source.applied(partition),
            self.newest_ms(partition),
            self._written_below(partition),
        )
