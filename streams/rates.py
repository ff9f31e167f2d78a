"""The rate of each channel session, and the turns that wait for it (spec/jobs.md, "Lanes"; pure, in ms).

A bucket a session: a start takes one place, places come back at the session's rate, at most those of
`BURST_MS` are kept. A turn takes its place when it starts and not before: who is cancelled, held or merged
while it waits has taken none from anybody.

What a session may do right after a restart follows from its last start, which the jobs table knows: its
bucket is taken to have been empty then. So a worker that is restarted again and again, and partitions that
move again and again, send no faster than one that stays.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from math import ceil
from typing import Final

from streams.turns import Entry

BURST_MS: Final = 1_000
"""So much of a session's rate may come at once: what passes while nobody could start (a pause, full slots) is
not made up for in a flood afterwards."""
MOST_SESSIONS: Final = 10_000
"""Sessions that are kept in mind; above it those that have been idle are forgotten."""


class Rates:
    """When which session may start a job.

    `per_s`: starts a second of one session, all workers together; 0 = no limit.
    """

    def __init__(self, per_s: float) -> None:
        self._per_s = per_s
        self.share = 1.0
        """This worker's part of a rate: its partitions of all."""
        self.clear()

    def clear(self) -> None:
        """Nobody waits, and nothing is known of any session."""
        self._next: dict[str, float] = {}
        """Session → when its next place is there."""
        self._waiting: dict[str, list[Entry]] = {}
        """Session → heap of those that wait for a place."""
        self._looks: list[tuple[int, str]] = []
        """Heap of (when, session): at least one for each session that somebody waits for."""
        self._forget_above = MOST_SESSIONS

    def began(self, session_id: str, started_ms: int) -> None:
        """A job of the session was started then, by whoever owned its contact."""
        step = self._step
        if step:
            self._next[session_id] = max(self._next.get(session_id, 0.0), started_ms + step)

    def take(self, session_id: str, now_ms: int) -> bool:
        """Take a place of the session; False: there is none now."""
        step = self._step
        if not step:
            return True
        place = self._place(session_id, now_ms, step)
        if place > now_ms:
            return False
        self._forget_idle(now_ms - max(BURST_MS - step, 0))
        self._next[session_id] = place + step
        return True

    def give_back(self, session_id: str | None, now_ms: int) -> None:
        """A place was taken for a job that did not start after all."""
        step = self._step
        if session_id is None or not step or session_id not in self._next:
            return
        self._next[session_id] -= step
        if session_id in self._waiting:
            place = max(self._place(session_id, now_ms, step), now_ms)
            heapq.heappush(self._looks, (ceil(place), session_id))

    def wait(self, session_id: str, entry: Entry, now_ms: int) -> None:
        """An entry waits until its session has a place."""
        waiting = self._waiting.setdefault(session_id, [])
        if not waiting:
            self._look_again(session_id, now_ms)
        heapq.heappush(waiting, entry)

    def next_due(self) -> int | None:
        """When somebody who waits may be able to start."""
        return self._looks[0][0] if self._looks else None

    def due(self, now_ms: int, wanted: Callable[[Entry], bool]) -> list[Entry]:
        """Those whose session has a place for them now, first come, first served; they still have to take it.

        Whoever is not `wanted` any more, since his turn was withdrawn, is forgotten.
        """
        found: list[Entry] = []
        while self._looks and self._looks[0][0] <= now_ms:
            _, session_id = heapq.heappop(self._looks)
            waiting = self._waiting.get(session_id)
            if waiting is None:
                continue
            places = self._places(session_id, now_ms)
            while waiting and places:
                entry = heapq.heappop(waiting)
                if wanted(entry):
                    found.append(entry)
                    places -= 1
            if waiting:
                self._look_again(session_id, now_ms)
            else:
                del self._waiting[session_id]
        return found

    # -- inside

    @property
    def _step(self) -> float:
        """Between two places of a session; 0 = no limit."""
        rate = self._per_s * self.share
        return 1000 / rate if rate > 0 else 0.0

    def _place(self, session_id: str, now_ms: int, step: float) -> float:
        """When the session's next place is, or was, there."""
        known = max(self._next.get(session_id, 0.0), now_ms - max(BURST_MS - step, 0))
        return min(known, now_ms + step)  # never farther, whatever clock told of a start

    def _places(self, session_id: str, now_ms: int) -> int:
        step = self._step
        if not step:
            return len(self._waiting[session_id])
        since = now_ms - self._place(session_id, now_ms, step)
        return int(since // step) + 1 if since >= 0 else 0

    def _look_again(self, session_id: str, now_ms: int) -> None:
        """When its next place is there; not at once where those that were told of one have yet to take it."""
        step = self._step
        place = self._place(session_id, now_ms, step)
        later = place if place > now_ms else now_ms + max(step, 1.0)
        heapq.heappush(self._looks, (ceil(later), session_id))

    def _forget_idle(self, idle_ms: float) -> None:
        if len(self._next) > self._forget_above:
            self._next = {session: at for session, at in self._next.items() if at > idle_ms}
            self._forget_above = max(MOST_SESSIONS, 2 * len(self._next))
