"""How long windows are: one look-up statement a batch, cached.

Rules: spec/dispatch.md, step 3; behaviours b098 to b102. Collecting never waits for Postgres longer than
a quarter of a second: a look-up that fails or is late means the installation's default and a warning.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import psycopg
import structlog

from db.pool import AsyncPool
from db.queries import load
from settings import Settings, clamp_debounce_ms
from streams.windows import WindowRule

log = structlog.get_logger(__name__)

Key = tuple[str, str, str]
"""Organization, conversation, channel session."""

ANSWER_WITHIN_S: Final = 0.25
CACHED_S: Final = 30.0
REST_S: Final = 1.0
"""After a look-up that failed nobody is asked for so long: else every batch would wait its quarter second."""
MOST_CACHED: Final = 100_000


class WindowLengths:
    """The rules by which windows are cut; see `streams.ports.Lengths`."""

    def __init__(
        self, pool: AsyncPool, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._default = WindowRule(
            length_ms=settings.inbound_debounce_ms,
            mode=settings.window_mode,
            max_wait_ms=settings.max_wait_ms,
            max_events=settings.max_events,
        )
        self._monotonic = monotonic
        self._cache: OrderedDict[Key, tuple[float, WindowRule]] = OrderedDict()
        """Key → until when its rule holds; the oldest first."""
        self._rests_until = 0.0
        self._late: asyncio.Task[dict[Key, WindowRule]] | None = None
        """A look-up that did not answer in time and is still under way: no other one is begun."""

    async def lookup(self, keys: Sequence[Key]) -> dict[Key, WindowRule]:
        """The rule of every key; the default for those that can't be looked up now. Never raises."""
        now = self._monotonic()
        rules: dict[Key, WindowRule] = {}
        missing: list[Key] = []
        for key in keys:
            held = self._cache.get(key)
            if held is not None and held[0] > now:
                rules[key] = held[1]
            elif key not in rules:
                rules[key] = self._default
                missing.append(key)
        if missing and now >= self._rests_until and not self._is_late():
            rules.update(await self._ask(missing))
        return rules

    def _is_late(self) -> bool:
        return self._late is not None and not self._late.done()

    async def _ask(self, keys: list[Key]) -> dict[Key, WindowRule]:
        """The rules of keys from Postgres; none, and a warning, when it fails or takes too long."""
        task = asyncio.ensure_future(self._fill(keys))
        try:
            done, _ = await asyncio.wait({task}, timeout=ANSWER_WITHIN_S)
        except asyncio.CancelledError:
            task.cancel()
            raise
        if done:
            return task.result()
        # Not cancelled, since a silent server would have to confirm that; its answer still helps later.
        self._late = task
        self._rest(len(keys), "no answer in time")
        return {}

    async def _fill(self, keys: list[Key]) -> dict[Key, WindowRule]:
        try:
            async with self._pool.connection() as connection:
                cursor = await connection.execute(
                    load("window_lengths"),
                    {
                        "organizations": [organization for organization, _, _ in keys],
                        "conversations": [conversation for _, conversation, _ in keys],
                        "sessions": [session for _, _, session in keys],
                    },
                )
                rows = await cursor.fetchall()
        except (psycopg.Error, OSError) as error:
            code = error.sqlstate if isinstance(error, psycopg.Error) else None
            self._rest(len(keys), f"sqlstate_{code}" if code else type(error).__name__)
            return {}
        until = self._monotonic() + CACHED_S
        rules = {key: self._rule(row) for key, row in zip(keys, rows, strict=True)}
        for key, rule in rules.items():
            self._cache[key] = until, rule
            self._cache.move_to_end(key)
        while len(self._cache) > MOST_CACHED:
            self._cache.popitem(last=False)
        return rules

    def _rule(self, row: tuple[Any, ...]) -> WindowRule:
        _, debounce, mode, max_wait_ms, max_events = row
        default = self._default
        return WindowRule(
            length_ms=clamp_debounce_ms(debounce, default.length_ms),
            mode=_mode(mode, default.mode),
            max_wait_ms=default.max_wait_ms if max_wait_ms is None else max_wait_ms,
            max_events=default.max_events if max_events is None else max_events,
        )

    def _rest(self, keys: int, why: str) -> None:
        self._rests_until = self._monotonic() + REST_S
        log.warning("window_lengths_unknown", why=why, keys=keys, default_ms=self._default.length_ms)


def _mode(value: object, default: Literal["fixed", "sliding"]) -> Literal["fixed", "sliding"]:
    if value == "fixed":
        return "fixed"
    return "sliding" if value == "sliding" else default
