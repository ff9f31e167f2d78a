"""What the routes work with: made once a process, opened and closed with it."""

from __future__ import annotations

import asyncio
from typing import Final

import psycopg

from db.pool import AsyncPool, async_pool, is_away
from db.queries import load
from settings import Settings
from streams.handlers.http import HttpClient
from streams.handlers.outgoing import Outgoing
from streams.handlers.whatsapp import WhatsApp
from streams.whatsapp_numbers import Numbers
from web.callers import Callers, Rates
from web.counts import Counts
from web.orders import Orders
from web.pages.desk import Desk
from web.pages.visits import Counter

LOOK_WITHIN_S: Final = 3.0
_NOBODY: Final = "0" * 16
"""The id of a token that there is none of."""


class Parts:
    """Pool, HTTP client and what they carry.

    Args:
        url: libpq URL of the database.
        settings: of the installation.
        desk: of the live page; None: it is not served.
    """

    def __init__(self, url: str, settings: Settings, desk: Desk | None = None) -> None:
        self.settings = settings
        self.pool: AsyncPool = async_pool(
            url,
            name="web",
            min_size=min(2, settings.web_connections),
            max_size=settings.web_connections,
            statement_timeout_ms=10_000,
        )
        self._http = HttpClient(settings.ca_file, Outgoing.of(settings))
        self.whatsapp = WhatsApp(self._http, settings)
        self.numbers = Numbers(self.pool, settings)
        self.callers = Callers(self.pool)
        self.rates = Rates(settings.web_rate_per_s)
        self.orders = Orders(settings)
        self.counts = Counts()
        self.live = Counter(self.pool, desk) if desk is not None else None
        self.waits_for: str | None = "it is just starting"
        """Why it can't do its work now; None: it can."""

    async def open(self) -> None:
        """Connect, without waiting for it."""
        await self.pool.open(wait=False)

    async def close(self) -> None:
        """Close connections."""
        if self.live is not None:
            await asyncio.to_thread(self.live.close)
        await self._http.close()
        await self.orders.close()
        await self.pool.close()

    async def look(self) -> None:
        """See whether Postgres is there and has our tables; `waits_for` says it then."""
        try:
            async with asyncio.timeout(LOOK_WITHIN_S), self.pool.connection() as connection:
                await connection.execute(load("tokens_find"), {"id": _NOBODY})
        except TimeoutError:
            self.waits_for = "Postgres does not answer in time"
        except psycopg.errors.UndefinedTable:
            self.waits_for = "the database lacks our tables: `rajada migrate` makes them"
        except (psycopg.Error, OSError) as error:
            away = "Postgres can't be reached" if is_away(error) else "Postgres refuses to be asked"
            self.waits_for = f"{away} ({type(error).__name__})"
        else:
            self.waits_for = None
