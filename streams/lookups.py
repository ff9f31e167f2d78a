"""Look-ups in Postgres that never hold anybody up: for many keys at once, kept for a while, given up in time.

What several hot paths need alike (window lengths, sessions' status): an answer that doesn't come in time is
not waited for but kept when it comes, and after a failure nobody is asked for a moment.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import psycopg

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Patience:
    """How long things may take and last, in seconds, and how many are kept."""

    answer_s: float
    """Nobody waits longer for an answer."""
    kept_s: float
    """So long an answer holds."""
    rest_s: float
    """After a look-up that failed nobody is asked for so long: else everybody would wait for its answer."""
    most: int
    """Answers that are kept at most."""


class LookUps(ABC, Generic[K, V]):
    """Answers by key, from memory or from one statement for all that are missing.

    `_read` asks; `_unknown` is told how many could not be asked for, and why.
    """

    def __init__(self, patience: Patience, monotonic: Callable[[], float]) -> None:
        self._patience = patience
        self._monotonic = monotonic
        self._cache: OrderedDict[K, tuple[float, V]] = OrderedDict()
        """Key → until when its answer holds, and the answer; what was asked for longest ago first."""
        self._rests_until = 0.0
        self._late: asyncio.Task[dict[K, V]] | None = None
        """A look-up that did not answer in time and is still under way: no other one is begun."""

    @abstractmethod
    async def _read(self, keys: list[K]) -> dict[K, V]:
        """Ask Postgres; raises psycopg.Error or OSError."""

    @abstractmethod
    def _unknown(self, keys: int, why: str) -> None:
        """So many keys can't be looked up now."""

    def _known(self, key: K) -> V | None:
        """The answer that is kept and still holds."""
        held = self._cache.get(key)
        return held[1] if held is not None and held[0] > self._monotonic() else None

    async def _look_up(self, keys: list[K]) -> dict[K, V]:
        """The answers for keys that aren't known; nothing while nobody can or may be asked. Never raises."""
        busy = self._late is not None and not self._late.done()
        if not keys or busy or self._monotonic() < self._rests_until:
            return {}
        task = asyncio.ensure_future(self._fill(keys))
        try:
            done, _ = await asyncio.wait({task}, timeout=self._patience.answer_s)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            return task.result()
        # Not cancelled, since a silent server would have to confirm that; its answer still helps later.
        self._late = task
        self._rest(len(keys), "no answer in time")
        return {}

    async def _fill(self, keys: list[K]) -> dict[K, V]:
        try:
            found = await self._read(keys)
        except (psycopg.Error, OSError) as error:
            code = error.sqlstate if isinstance(error, psycopg.Error) else None
            self._rest(len(keys), f"sqlstate_{code}" if code else type(error).__name__)
            return {}
        until = self._monotonic() + self._patience.kept_s
        for key, answer in found.items():
            self._cache[key] = until, answer
            self._cache.move_to_end(key)
        while len(self._cache) > self._patience.most:
            self._cache.popitem(last=False)
        return found

    def _rest(self, keys: int, why: str) -> None:
        self._rests_until = self._monotonic() + self._patience.rest_s
        self._unknown(keys, why)
