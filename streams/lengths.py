"""How long windows are: one look-up statement a batch, cached.

Rules: spec/dispatch.md, step 3; behaviours b098 to b102. Collecting never waits for Postgres longer than
a quarter of a second: a look-up that fails or is late means the installation's default and a warning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Literal

import structlog

from db.pool import AsyncPool
from db.queries import load
from settings import Settings, clamp_debounce_ms
from streams.lookups import LookUps, Patience
from streams.windows import WindowRule

log = structlog.get_logger(__name__)

Key = tuple[str, str, str]
"""Organization, conversation, channel session."""

ANSWER_WITHIN_S: Final = 0.25
CACHED_S: Final = 30.0
REST_S: Final = 1.0
MOST_CACHED: Final = 100_000


class WindowLengths(LookUps[Key, WindowRule]):
    """The rules by which windows are cut; see `streams.ports.Lengths`."""

    def __init__(
        self, pool: AsyncPool, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(Patience(ANSWER_WITHIN_S, CACHED_S, REST_S, MOST_CACHED), monotonic)
        self._pool = pool
        self._default = WindowRule(
            length_ms=settings.inbound_debounce_ms,
            mode=settings.window_mode,
            max_wait_ms=settings.max_wait_ms,
            max_events=settings.max_events,
        )

    async def lookup(self, keys: Sequence[Key]) -> dict[Key, WindowRule]:
        """The rule of every key; the default for those that can't be looked up now. Never raises."""
        known = {key: self._known(key) for key in keys}
        found = await self._look_up([key for key, rule in known.items() if rule is None])
        return {key: rule or found.get(key, self._default) for key, rule in known.items()}

    async def _read(self, keys: list[Key]) -> dict[Key, WindowRule]:
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
        return {key: self._rule(row) for key, row in zip(keys, rows, strict=True)}

    def _unknown(self, keys: int, why: str) -> None:
        log.warning("window_lengths_unknown", why=why, keys=keys, default_ms=self._default.length_ms)

    def _rule(self, row: tuple[Any, ...]) -> WindowRule:
        _, debounce, mode, max_wait_ms, max_events = row
        default = self._default
        return WindowRule(
            length_ms=clamp_debounce_ms(debounce, default.length_ms),
            mode=_mode(mode, default.mode),
            max_wait_ms=default.max_wait_ms if max_wait_ms is None else max_wait_ms,
            max_events=default.max_events if max_events is None else max_events,
        )


def _mode(value: object, default: Literal["fixed", "sliding"]) -> Literal["fixed", "sliding"]:
    if value == "fixed":
        return "fixed"
    return "sliding" if value == "sliding" else default
