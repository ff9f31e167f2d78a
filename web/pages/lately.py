"""What was asked of the desk lately: many viewers, one question at a time, and costly ones more seldom."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar, cast

FRESH_S: Final = 1.5
TIMES_ITS_COST: Final = 4
"""An answer that took a second is told for four: so a question takes a fifth of the time at most."""
LONGEST_S: Final = 60.0
MOST: Final = 200
"""Answers that are kept."""
THREADS: Final = 8

Answer = TypeVar("Answer")


class Lately:
    """Asks in threads, and keeps answers for a moment. For one event loop."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(THREADS, "live-page")
        self._kept: OrderedDict[Hashable, tuple[float, Any]] = OrderedDict()
        self._asking: dict[Hashable, asyncio.Task[Any]] = {}

    async def now(self, ask: Callable[..., Answer], *given: object, **named: object) -> Answer:
        """Ask, whatever is known."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: ask(*given, **named))

    async def of(self, ask: Callable[..., Answer], *given: Hashable, **named: Hashable) -> Answer:
        """An answer that is a moment old at most; who asks for the same shares it, errors too."""
        key = (ask.__name__, given, tuple(sorted(named.items())))
        kept = self._kept.get(key)
        if kept is not None and kept[0] > time.monotonic():
            return cast(Answer, kept[1])
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, ask, given, named))
            task.add_done_callback(lambda done: self._done(key, done))
        # who goes away ends nobody else's question
        return cast(Answer, await asyncio.shield(task))

    def close(self) -> None:
        """Ask no more; what is under way is not waited for."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _ask(
        self, key: Hashable, ask: Callable[..., Any], given: tuple[Any, ...], named: dict[str, Any]
    ) -> Any:
        begun = time.monotonic()
        answer = await self.now(ask, *given, **named)
        took_s = time.monotonic() - begun
        fresh_s = min(max(FRESH_S, took_s * TIMES_ITS_COST), LONGEST_S)
        self._kept[key] = time.monotonic() + fresh_s, answer
        self._kept.move_to_end(key)
        while len(self._kept) > MOST:
            self._kept.popitem(last=False)
        return answer

    def _done(self, key: Hashable, task: asyncio.Task[Any]) -> None:
        self._asking.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen by who asked, if anybody still does

    def forget(self) -> None:
        """Somebody has changed something: ask anew."""
        self._kept.clear()
