"""Who asks: bearer tokens, looked up in Postgres, and how often each may ask.

A token that was found is believed for 5 s, so that is how long a revoked one still works.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from db.pool import AsyncPool
from db.queries import load
from db.tokens import read_token
from web.errors import Refused

CACHED_S: Final = 5.0
MOST_CACHED: Final = 10_000
_NO_DIGEST: Final = bytes(32)
"""What a token that there is none of is compared with, so that it takes as long."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A token that was found to be good."""

    token_id: str
    organization_id: UUID


class Callers:
    """Knows tokens.

    Args:
        pool: connections in autocommit mode.
        monotonic: seconds.
    """

    def __init__(self, pool: AsyncPool, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._pool = pool
        self._monotonic = monotonic
        self._known: OrderedDict[str, tuple[float, UUID | None, bytes]] = OrderedDict()

    async def of(self, authorization: str | None) -> Caller:
        """Who sends this header. Raises Refused (401), psycopg.Error when it can't be looked up."""
        scheme, _, text = (authorization or "").partition(" ")
        token = read_token(text.strip()) if scheme.lower() == "bearer" else None
        if token is None:
            raise _unauthorized()
        organization_id, digest = await self._find(token.id)
        if not token.matches(digest) or organization_id is None:
            raise _unauthorized()
        return Caller(token.id, organization_id)

    async def _find(self, token_id: str) -> tuple[UUID | None, bytes]:
        known = self._known.get(token_id)
        if known is not None and known[0] > self._monotonic():
            return known[1], known[2]
        async with self._pool.connection() as connection:
            cursor = await connection.execute(load("tokens_find"), {"id": token_id})
            row = await cursor.fetchone()
        organization_id, digest = (row[0], bytes(row[1])) if row is not None else (None, _NO_DIGEST)
        self._known[token_id] = self._monotonic() + CACHED_S, organization_id, digest
        self._known.move_to_end(token_id)
        while len(self._known) > MOST_CACHED:
            self._known.popitem(last=False)
        return organization_id, digest


class Rates:
    """How many requests each token has left: a bucket that fills with `rate_per_s`, and holds a second of it.

    0 = no limit.
    """

    def __init__(self, rate_per_s: float, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rate = rate_per_s
        self._burst = max(rate_per_s, 1.0)
        self._monotonic = monotonic
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, token_id: str) -> None:
        """Count a request. Raises Refused (429) with the seconds until the next one."""
        if self._rate <= 0:
            return
        now = self._monotonic()
        left, at = self._left.get(token_id, (self._burst, now))
        left = min(left + (now - at) * self._rate, self._burst)
        if left < 1.0:
            wait_s = max(1, round((1.0 - left) / self._rate + 0.5))
            raise Refused(
                429, "too_many_requests", "This token asks too often.", headers={"Retry-After": str(wait_s)}
            )
        self._left[token_id] = left - 1.0, now
        self._left.move_to_end(token_id)
        while len(self._left) > MOST_CACHED:
            self._left.popitem(last=False)


def _unauthorized() -> Refused:
    return Refused(
        401,
        "unauthorized",
        "A bearer token is needed that is not revoked; `rajada tokens add` makes one.",
        headers={"WWW-Authenticate": "Bearer"},
    )
