"""A worker's first look at the database's clock, before it takes its first record.

Steps of the machine's clock are seen by a worker that runs (`streams.steady_clock`). One that starts has
nothing to compare with but the database, whose time all events carry.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import psycopg
import structlog

from db.queries import load
from streams.skew import ClockSkew

log = structlog.get_logger(__name__)

WITHIN_S: Final = 2
"""A start waits no longer for it. The least that libpq knows."""


def database_ahead_ms(url: str, now_ms: Callable[[], int]) -> float | None:
    """By how many ms the database's clock is surely ahead of `now_ms`; None: it can't be asked now."""
    skew = ClockSkew()
    try:
        with psycopg.connect(url, connect_timeout=WITHIN_S, autocommit=True) as connection:
            connection.execute("SET statement_timeout = '2s'")
            asked_ms = now_ms()
            row = connection.execute(load("clock")).fetchone()
            if row is not None:
                skew.observe(float(row[0]), asked_ms, now_ms())
    except psycopg.Error as error:
        log.info("clock_not_compared", reason=type(error).__name__, what="with the first decision, then")
        return None
    return skew.ms
