"""Who looks at the page: tokens of people, looked up in Postgres, and how often somebody may try one.

A token that was found is believed for 4 s, so that its sessions end within 5 s of its revocation.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from db.pool import AsyncPool
from db.queries import load
from db.tokens import read_token
from web.pages.sessions import Session, new_session, read_session

CACHED_S: Final = 4.0
MOST_CACHED: Final = 10_000
TRIES_A_MINUTE: Final = 10
"""Logins that may fail, of one address."""
_NO_DIGEST: Final = bytes(32)


@dataclass(frozen=True, slots=True)
class Viewer:
    """Somebody who has logged in."""

    token_id: str
    name: str
    role: Literal["reader", "operator"]
    sees_phones: bool
    whose: str | None
    """The organization that may be seen; None = all."""
    session: Session
    form_token: str

    @property
    def acts(self) -> bool:
        """Whether this is an operator."""
        return self.role == "operator"


@dataclass(frozen=True, slots=True)
class _Known:
    name: str
    role: Literal["reader", "operator"]
    sees_phones: bool
    whose: str | None


class Viewers:
    """Knows the page's tokens.

    Args:
        pool: connections in autocommit mode.
        monotonic: seconds.
        now: Unix seconds.
    """

    def __init__(
        self,
        pool: AsyncPool,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._pool = pool
        self._monotonic = monotonic
        self._now = now
        self._known: OrderedDict[str, tuple[float, _Known | None, bytes]] = OrderedDict()

    async def log_in(self, text: str) -> Session | None:
        """A session for who has this token; None: it is none. Raises psycopg.Error."""
        token = read_token(text.strip())
        if token is None:
            return None
        known, digest = await self._find(token.id)
        good = token.matches(digest)
        return new_session(token.id, digest, self._now()) if good and known is not None else None

    async def of(self, cookie: str | None) -> Viewer | None:
        """Who has this cookie; None: nobody, or no more. Raises psycopg.Error when it can't be looked up."""
        session = read_session(cookie) if cookie else None
        if session is None:
            return None
        known, digest = await self._find(session.token_id)
        if not session.is_good(digest, self._now()) or known is None:
            return None
        return Viewer(
            session.token_id,
            known.name,
            known.role,
            known.sees_phones,
            known.whose,
            session,
            session.form_token(digest),
        )

    async def _find(self, token_id: str) -> tuple[_Known | None, bytes]:
        cached = self._known.get(token_id)
        if cached is not None and cached[0] > self._monotonic():
            return cached[1], cached[2]
        asked = self._monotonic()
        async with self._pool.connection() as connection:
            cursor = await connection.execute(load("page_tokens_find"), {"id": token_id})
            row: tuple[Any, ...] | None = await cursor.fetchone()
        known, digest = None, _NO_DIGEST
        if row is not None:
            known = _Known(row[0], row[1], row[2], str(row[3]) if row[3] is not None else None)
            digest = bytes(row[4])
        # from when it was asked: an answer that took long is not believed for longer
        self._known[token_id] = asked + CACHED_S, known, digest
        self._known.move_to_end(token_id)
        while len(self._known) > MOST_CACHED:
            self._known.popitem(last=False)
        return known, digest


class Tries:
    """How many logins have failed lately, by address: a bucket each that fills again within a minute."""

    def __init__(self, *, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._failed: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait_s(self, address: str) -> int:
        """Seconds until this address may try; 0 = now."""
        failed = self._now_failed(address)
        return (
            0
            if failed <= TRIES_A_MINUTE - 1
            else int((failed - TRIES_A_MINUTE + 1) * 60 / TRIES_A_MINUTE) + 1
        )

    def failed(self, address: str) -> None:
        """One has failed."""
        self._failed[address] = self._now_failed(address) + 1, self._monotonic()
        self._failed.move_to_end(address)
        while len(self._failed) > MOST_CACHED:
            self._failed.popitem(last=False)

    def _now_failed(self, address: str) -> float:
        failed, at = self._failed.get(address, (0.0, 0.0))
        return max(0.0, failed - (self._monotonic() - at) * TRIES_A_MINUTE / 60)
