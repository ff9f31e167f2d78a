"""`rajada whatsapp`: with whose numbers organizations send, and a stand-in for the provider."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ops.whatsapp.app import WhatsApp

app = typer.Typer(
    help="WhatsApp numbers of organizations; a stand-in for its Cloud API.", no_args_is_help=True
)


@app.command("stand-in")
def stand_in(
    port: Annotated[int, typer.Option(min=0, max=65535, help="Where to listen; 0: a free port.")] = 8097,
    host: Annotated[str, typer.Option(help="Where to listen; 0.0.0.0: everywhere.")] = "127.0.0.1",
    mode: Annotated[str, typer.Option(help="ok, error, drop, hang, cut, gateway.")] = "ok",
    code: Annotated[int, typer.Option(help="With --mode error: the provider's number.")] = 131000,
    delay_ms: Annotated[int, typer.Option(min=0, help="So long an answer takes.")] = 0,
    times: Annotated[
        int | None, typer.Option(min=0, help="Treat only the first so many messages to a phone by the mode.")
    ] = None,
) -> None:
    """Stand in for the WhatsApp Cloud API: take templates over HTTP, and tell what came.

    `PUT /scenarios/NAME` (a phone, a template, or `default`) changes how messages are treated; `GET
    /messages` and `GET /taken` tell what came. Looks for WHATSAPP_ACCESS_TOKEN if it is set.
    """
    import asyncio

    from logs import configure_logging
    from ops.errors import WrongScenario
    from ops.whatsapp.app import WhatsApp
    from ops.whatsapp.scenario import scenario_from_fields
    from settings import get_settings

    settings = get_settings()
    configure_logging(settings)
    fields = {"mode": mode, "code": str(code), "delay_ms": str(delay_ms)}
    try:
        scenario = scenario_from_fields(fields | ({} if times is None else {"times": str(times)}))
    except WrongScenario as error:
        raise typer.BadParameter(str(error), param_hint="--mode") from error
    token = settings.whatsapp_access_token
    asyncio.run(_serve(WhatsApp(scenario, token=token.get_secret_value() if token else None), port, host))


async def _serve(served_one: WhatsApp, port: int, host: str) -> None:
    import status
    from ops.stand_in import served, stopped_by_signals

    async with served(served_one, port, host) as url:
        typer.echo(f"Messages are taken at {url} (WHATSAPP_API_URL); Ctrl-C ends it.")
        status.report("whatsapp", "ready", url)
        await stopped_by_signals()


@app.command("set")
def set_(
    organization: Annotated[str, typer.Argument(help="The organization's id.")],
    phone_number_id: Annotated[str, typer.Argument(help="The id that the provider gave its number.")],
) -> None:
    """Set with which number an organization sends; asks for the access token (or reads it from stdin).

    It is stored sealed (RAJADA_SECRET_KEYS). Group links that were held for want of it are released. Exit
    code 12 if there is no such organization.
    """
    import sys

    from db.sealing import Seals
    from ops.endpoints import database_of
    from ops.group_links import desk
    from settings import get_settings

    settings = get_settings()
    seals = Seals.of(settings)
    seals.seal("")  # without a key nobody is asked for a secret
    asked = sys.stdin.isatty()
    token = typer.prompt("Access token", hide_input=True) if asked else sys.stdin.readline().strip()
    with desk.opened(database_of(settings)) as connection:
        desk.set_number(connection, seals, organization, phone_number_id, token)
        released = desk.release_all(connection, settings, organization, desk.WANTING)
    typer.echo(f"{organization} sends with {phone_number_id}; {released} group links were released.")


@app.command("key")
def key() -> None:
    """Make a key for RAJADA_SECRET_KEYS and print it; nothing keeps it but you."""
    from db.sealing import new_key

    typer.echo(new_key())


@app.command("reseal")
def reseal() -> None:
    """Seal all access tokens with the first of RAJADA_SECRET_KEYS, those in plain text too.

    Exit code 10 if some were sealed with a key that isn't among them: these are left as they are.
    """
    from db.sealing import Seals
    from ops.endpoints import database_of
    from ops.group_links import desk
    from settings import get_settings

    settings = get_settings()
    with desk.opened(database_of(settings)) as connection:
        done, left = desk.reseal(connection, Seals.of(settings))
    typer.echo(f"{done} access tokens were sealed anew.")
    if left:
        typer.echo(
            f"{left} can't be opened: RAJADA_SECRET_KEYS lacks their key. Put it behind the others, or set "
            "these numbers again with `rajada whatsapp set`.",
            err=True,
        )
        raise typer.Exit(10)


@app.command("ls")
def ls() -> None:
    """Show which organizations have a number of their own; secrets are not shown."""
    from ops.endpoints import database_of
    from ops.group_links import desk
    from settings import get_settings

    with desk.opened(database_of(get_settings())) as connection:
        for organization, number, by, at in desk.numbers(connection):
            typer.echo(f"{organization}  {number}  set by {by or 'somebody'}, {at:%Y-%m-%d %H:%M}")


@app.command("drop")
def drop(organization: Annotated[str, typer.Argument(help="The organization's id.")]) -> None:
    """Forget an organization's number: it sends with that of the settings, if there is one."""
    from ops.endpoints import database_of
    from ops.group_links import desk
    from settings import get_settings

    with desk.opened(database_of(get_settings())) as connection:
        desk.drop_number(connection, organization)
    typer.echo(f"{organization} has no number of its own any more.")
