"""With whose WhatsApp number an organization sends: its own (`rajada.whatsapp_numbers`), or the settings'."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final
from uuid import UUID

import psycopg
import structlog

from db.pool import AsyncPool
from db.queries import load
from db.sealing import SealedElsewhere, Seals
from settings import RajadaError, Settings
from streams.handlers.whatsapp import Number

log = structlog.get_logger(__name__)

CACHED_S: Final = 10.0
ANSWER_WITHIN_S: Final = 3.0
MOST_CACHED: Final = 10_000


class NumbersUnknown(RajadaError):
    """Whether an organization has a number of its own can't be read now: try again when Postgres is there."""


class NumberSealed(RajadaError):
    """The organization has a number of its own, and this process has no key for its access token."""


class Numbers:
    """The numbers as they were at most 10 s ago; older ones while Postgres can't be asked.

    Args:
        pool: connections in autocommit mode.
        settings: the number of those that have none of their own.
        monotonic: seconds.
    """

    def __init__(
        self, pool: AsyncPool, settings: Settings, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._pool = pool
        self._monotonic = monotonic
        self._default = default_number(settings)
        self._seals = Seals.of(settings)
        self._known: dict[str, tuple[float, Number | None]] = {}

    async def of(self, organization_id: str, *, fresh: bool = False) -> Number | None:
        """The number of an organization (a UUID); None: there is none.

        `fresh`: as it is now, since the one that was known is no good. Raises NumbersUnknown, NumberSealed:
        whoever has a number of their own must not be written to from another one.
        """
        held = self._known.get(organization_id)
        if held is not None and held[0] > self._monotonic() and not fresh:
            return held[1] or self._default
        try:
            async with asyncio.timeout(ANSWER_WITHIN_S):
                own = await self._ask(organization_id)
        except (psycopg.Error, OSError, TimeoutError) as error:
            log.warning("whatsapp_numbers_unknown", error=type(error).__name__)
            if held is None:
                raise NumbersUnknown(
                    "The organization's WhatsApp number can't be read; Postgres must be there first."
                ) from error
            own = held[1]
        if own is None and self._default is None:
            return None  # not kept: it is held for this, and released when it has changed
        if len(self._known) >= MOST_CACHED:
            self._known.clear()
        self._known[organization_id] = self._monotonic() + CACHED_S, own
        return own or self._default

    async def _ask(self, organization_id: str) -> Number | None:
        async with self._pool.connection() as connection:
            values = {"organization_id": UUID(organization_id)}
            row = await (await connection.execute(load("whatsapp_number"), values)).fetchone()
        if row is None:
            return None
        try:
            return Number(str(row[0]), self._seals.open(str(row[1])))
        except SealedElsewhere as error:
            log.error("whatsapp_number_sealed", organization_id=organization_id, why=str(error))
            raise NumberSealed(f"Its access token can't be opened. {error}") from None


def default_number(settings: Settings) -> Number | None:
    """The number that the settings name, if they name both it and its token."""
    if settings.whatsapp_phone_number_id is None or settings.whatsapp_access_token is None:
        return None
    return Number(settings.whatsapp_phone_number_id, settings.whatsapp_access_token)
