"""How fast may be sent with a WhatsApp number: one queue a number, a place taken only by who sends.

Who leaves the queue (his job was cancelled, the worker stops) has taken nothing: those behind him move up. A
process begins with an empty queue's first place ahead of it, so that one which is restarted again and again
sends no faster than one that lives.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

CATCH_UP_S: Final = 0.02
"""So much of a place that was missed is made up for: the event loop wakes nobody at the very moment."""
LEAST_SHARE: Final = 0.001


class _Queue:
    """Those who wait to send with one number."""

    __slots__ = ("next_s", "turn", "waiting")

    def __init__(self, next_s: float) -> None:
        self.next_s = next_s
        """When the next place is there."""
        self.turn = asyncio.Lock()
        """First come, first served."""
        self.waiting = 0


class Paces:
    """The rates of all numbers, for one process.

    Args:
        per_s: messages a second of one number, all processes together.
        share: this process' part of it, above 0 to 1.
        monotonic: seconds.
    """

    def __init__(
        self, per_s: float, share: Callable[[], float], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._per_s = per_s
        self._share = share
        self._monotonic = monotonic
        self._began_s = monotonic()
        self._queues: dict[str, _Queue] = {}

    async def turn(self, number: str, within_s: float) -> bool:
        """Wait for the number's next place and take it; False at once: it would be later than `within_s`."""
        queue = self._queues.get(number)
        if queue is None:
            queue = self._queues[number] = _Queue(self._began_s + self._step_s)
        ahead_s = max(queue.next_s - self._monotonic(), 0.0) + queue.waiting * self._step_s
        if ahead_s > within_s:
            return False
        queue.waiting += 1
        try:
            async with queue.turn:
                while (left_s := queue.next_s - self._monotonic()) > 0:  # noqa: ASYNC110  # time is no event
                    await asyncio.sleep(left_s)
                queue.next_s = max(queue.next_s, self._monotonic() - CATCH_UP_S) + self._step_s
        finally:
            queue.waiting -= 1
        return True

    @property
    def _step_s(self) -> float:
        return 1.0 / (self._per_s * max(self._share(), LEAST_SHARE))
