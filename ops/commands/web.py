"""`rajada web`: the HTTP API, and the live page."""

from __future__ import annotations

import contextlib
from typing import Annotated

import typer


def web(
    port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Instead of RAJADA_WEB_PORT; 0: a free one.")
    ] = None,
    host: Annotated[str | None, typer.Option(help="Instead of RAJADA_WEB_HOST.")] = None,
) -> None:
    """Serve the HTTP API and the live page (/live), until SIGTERM or Ctrl-C; requests under way are let end.

    `rajada tokens add` makes the tokens that the API asks for, `rajada tokens page add` those of people;
    docs/group-links.md and docs/live-page.md tell the rest.
    """
    from logs import configure_logging
    from ops.endpoints import bootstrap_of, database_of
    from ops.errors import NotRunning
    from ops.pages.desk import PageDesk
    from settings import get_settings
    from web.process import PORT, run_web

    settings = get_settings()
    configure_logging(settings)
    with contextlib.suppress(NotRunning):  # it is needed for orders to jobs alone
        settings = settings.model_copy(update={"kafka_bootstrap_servers": bootstrap_of(settings)})
    wanted = port if port is not None else settings.web_port
    url = database_of(settings)
    run_web(
        url,
        settings,
        host=host or settings.web_host,
        port=PORT if wanted is None else wanted,
        desk=PageDesk(url, settings),
    )
