"""The service, put together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from fastapi import FastAPI

from settings import Settings
from web.errors import install
from web.gate import Gate
from web.pages.app import pages
from web.pages.desk import Desk
from web.parts import Parts
from web.routes import asked, health

DESCRIPTION: Final = (
    "Sends WhatsApp templates with the link of a group after an enrolment: later and surely, or at once. "
    "Every request carries a bearer token, which names its organization."
)


def build(url: str, settings: Settings, desk: Desk | None = None) -> FastAPI:
    """The application; it connects when it is started.

    Args:
        url: libpq URL of the database.
        settings: of the installation.
        desk: of the live page; None: it is not served.
    """
    parts = Parts(url, settings, desk)

    @asynccontextmanager
    async def living(application: FastAPI) -> AsyncIterator[None]:
        """Open before the first request, closed after the last one."""
        await parts.open()
        try:
            yield
        finally:
            await parts.close()

    application = FastAPI(
        title="Rajada: group links",
        version="1",
        description=DESCRIPTION,
        lifespan=living,
        docs_url=None,  # its pages load scripts from elsewhere
        redoc_url=None,
        redirect_slashes=False,
    )
    application.state.parts = parts
    application.include_router(asked)
    application.include_router(health)
    install(application)
    application.add_middleware(
        Gate,
        callers=parts.callers,
        rates=parts.rates,
        max_body=settings.web_max_body_kb * 1024,
        counts=parts.counts,
        pages=pages(parts.live) if parts.live is not None else None,
    )
    return application
