"""Deadlines of windows on the monotonic clock: a heap that is rebuilt whenever partitions are taken over.

An entry names a window and the state it was scheduled for; when it comes up and the window has moved on,
it is stale and falls away. Nothing is ever removed from the middle (pure; times in seconds, monotonic).
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field

from streams.contact import Window, WindowState


@dataclass(order=True, slots=True, frozen=True)
class Timer:
    """A moment at which one window wants to be looked at."""

    due: float
    partition: int = field(compare=False)
    key: bytes = field(compare=False)
    window_id: str = field(compare=False)
    state: WindowState = field(compare=False)
    until_ms: int = field(compare=False)
    """The deadline (open) or the look (media, retry) that this timer stands for."""

    def stale(self, window: Window) -> bool:
        """Whether the window has moved on since: it has a timer of its own then."""
        return window.state != self.state or until_ms(window) < self.until_ms

    def early_by_ms(self, window: Window) -> int:
        """How much later the window's deadline is by now (sliding windows are extended); 0 = due."""
        return until_ms(window) - self.until_ms


def until_ms(window: Window) -> int:
    """The time a timer of this window stands for: its deadline, or its next look."""
    return window.deadline_ms if window.state in ("open", "frozen") else window.look_at_ms


class Timers:
    """The heap."""

    def __init__(self) -> None:
        self._heap: list[Timer] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, due: float, partition: int, key: bytes, window: Window) -> None:
        """Look at `window` at `due`."""
        timer = Timer(due, partition, key, window.id, window.state, until_ms(window))
        heapq.heappush(self._heap, timer)

    def put_back(self, timer: Timer, due: float, until: int | None = None) -> None:
        """Look at the same window again at `due`."""
        heapq.heappush(
            self._heap,
            Timer(
                due,
                timer.partition,
                timer.key,
                timer.window_id,
                timer.state,
                timer.until_ms if until is None else until,
            ),
        )

    def next_due(self) -> float | None:
        """When the earliest timer is due; None = there is none."""
        return self._heap[0].due if self._heap else None

    def pop_due(self, now: float, limit: int) -> list[Timer]:
        """Up to `limit` timers that are due, earliest first."""
        due: list[Timer] = []
        while self._heap and self._heap[0].due <= now and len(due) < limit:
            due.append(heapq.heappop(self._heap))
        return due

    def clear(self) -> None:
        """Forget all of them: the partitions they belong to are given up."""
        self._heap.clear()
