"""How long Postgres was away, told when it is back: an alert can't be written while it is (pure)."""

from __future__ import annotations

import time
from typing import Final

from schemas import alert_texts
from settings import Language
from sinks.raised import trouble
from sinks.rows import TroubleRow

ALARM_S: Final = 30.0
"""A shorter outage, such as a restart, is in the log alone."""


class Outage:
    """One outage after the other, by a clock that never steps; times in seconds."""

    def __init__(self) -> None:
        self._since: float | None = None

    def seen(self, now_s: float, of_postgres: bool) -> None:
        """Something could not be done; whether it was Postgres that was missing."""
        if of_postgres and self._since is None:
            self._since = now_s

    def over(self, now_s: float) -> int | None:
        """All is well again: how long Postgres was away if that is to be told, in whole seconds."""
        since, self._since = self._since, None
        if since is None or now_s - since < ALARM_S:
            return None
        return round(now_s - since)


def database_was_away(seconds: int, language: Language) -> TroubleRow:
    """What the platform is told; it is over already, so the next pass resolves it."""
    now_ms = time.time_ns() // 1_000_000
    alert = alert_texts.database_away(seconds, None, language)
    return trouble(alert, None, "condition", f"database_away@{now_ms}", now_ms, lasts_s=0)
