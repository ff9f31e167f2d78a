"""`rajada engine`: a stand-in for the agent engine, to try things out against."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ops.engine.app import Engine


def engine(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0: a free port.")] = 8099,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0: everywhere.")] = "127.0.0.1",
    mode: Annotated[
        str,
        typer.Option(
            help="ok, fail, rate, hang, credit, conflict, retry, cancel, garbage, flood, redirect, drop."
        ),
    ] = "ok",
    delay_ms: Annotated[int, typer.Option(min=0, help="So long a turn takes.")] = 0,
    times: Annotated[
        int | None, typer.Option(min=0, help="Treat only the first so many requests of a job by the mode.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option(help="Append every request to this file, as JSON lines.")
    ] = None,
    forgetful: Annotated[
        bool, typer.Option("--forgetful", help="Do the work anew for a key that was done before.")
    ] = False,
) -> None:
    """Stand in for the agent engine: answer turns over HTTP, and tell what came.

    `PUT /scenarios/ID` (a job's, a contact's, or `default`) changes how turns are treated, a query in the URL
    does so for one request: `AGENT_ENGINE_URL=http://127.0.0.1:8099/turns?mode=fail&times=2`. `GET /requests`
    and `GET /effects` tell what came. Looks for AGENT_ENGINE_TOKEN if it is set.
    """
    import asyncio

    from logs import configure_logging
    from ops.engine.app import Engine
    from ops.engine.journal import Journal
    from ops.engine.scenario import scenario_from_query
    from ops.errors import WrongScenario
    from settings import get_settings

    settings = get_settings()
    configure_logging(settings)
    fields = {"mode": mode, "delay_ms": str(delay_ms)} | ({} if times is None else {"times": str(times)})
    try:
        scenario = scenario_from_query(fields)
    except WrongScenario as error:
        raise typer.BadParameter(str(error), param_hint="--mode") from error
    token = settings.agent_engine_token
    journal = Journal(log)
    stand_in = Engine(
        journal,
        scenario,
        honours_keys=not forgetful,
        token=token.get_secret_value() if token is not None else None,
    )
    try:
        asyncio.run(_serve(stand_in, port, host))
    finally:
        journal.close()


async def _serve(stand_in: Engine, port: int, host: str) -> None:
    import status
    from ops.engine.serving import TURNS
    from ops.stand_in import served, stopped_by_signals

    async with served(stand_in, port, host) as url:
        typer.echo(f"Turns are taken at {url}{TURNS} (AGENT_ENGINE_URL); Ctrl-C ends it.")
        status.report("engine", "ready", url + TURNS)
        await stopped_by_signals()
