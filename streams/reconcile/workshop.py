"""What runs are made with, put together from the settings: schedule, pool, leases, the provider."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from db.leases import new_holder
from db.pool import AsyncPool, async_pool, conninfo_for
from settings import Settings
from streams.handlers.outgoing import Outgoing
from streams.reconcile.ledger import SCHEDULE, Ledger
from streams.reconcile.probe import Provider
from streams.reconcile.run import Options, Runner
from streams.reconcile.schedule import Schedule
from streams.reconcile.store import Store

NAME: Final = "reconciler"
"""The process' name in `rajada status`, and its connections' in Postgres."""


def schedule_of(settings: Settings) -> Schedule:
    """The schedule that the settings name. Raises WrongSchedule."""
    return Schedule.parse(
        SCHEDULE,
        settings.reconcile_cron,
        settings.reconcile_time_zone,
        catch_up_s=settings.reconcile_catch_up_s,
        jitter_s=settings.reconcile_jitter_s,
    )


def options_of(settings: Settings, owner: str) -> Options:
    """How the settings want runs to be made. Raises WrongSetting."""
    token = settings.whatsapp_probe_token
    provider = (
        Provider(
            settings.whatsapp_probe_url,
            token.get_secret_value() if token is not None else None,
            settings.whatsapp_probe_timeout_s,
            settings.whatsapp_probe_concurrency,
            settings.ca_file,
            Outgoing.of(settings),
        )
        if settings.whatsapp_probe_url is not None
        else None
    )
    return Options(
        owner,
        settings.reconcile_batch,
        settings.reconcile_lease_s,
        provider,
        settings.whatsapp_probe_away,
    )


def pool_of(url: str, settings: Settings) -> AsyncPool:
    """The reconciler's pool, not yet open: one connection to look, one to beat, the others for a run."""
    session = {
        "connect.language": settings.language,
        # a row that the CRM holds shall not hold a run up; the rebuild waits longer for another session
        "lock_timeout": "2s",
        "idle_in_transaction_session_timeout": "10s",
        "jit": "off",
    }
    return async_pool(conninfo_for(url, NAME, session), name=NAME, max_size=4, statement_timeout_ms=60_000)


@asynccontextmanager
async def workshop(url: str, settings: Settings) -> AsyncIterator[tuple[Ledger, Store, Runner]]:
    """All that runs are made with, as long as the block; the pool is opened without waiting for the database.

    Args:
        url: libpq URL.
        settings: leases, batches, whom to ask.

    Raises:
        WrongSetting: the provider's URL or certificates can't be used.
    """
    owner = new_holder()
    options = options_of(settings, owner)
    pool = pool_of(url, settings)
    await pool.open(wait=False)
    try:
        ledger, store = Ledger(pool, owner, settings.reconcile_lease_s), Store(pool)
        yield ledger, store, Runner(ledger, store, options)
    finally:
        await pool.close()
