"""`rajada tokens`: who may ask the HTTP API."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.commands import page_tokens
from ops.commands.selecting import Json

app = typer.Typer(
    help="Tokens of the HTTP API, each of one organization; `page`: of the live page.", no_args_is_help=True
)
app.add_typer(page_tokens.app, name="page")

Organization = Annotated[str, typer.Argument(help="The organization's id.")]


@app.command("add")
def add(
    organization: Organization,
    name: Annotated[str, typer.Option(help="Who will use it, for people.")] = "",
) -> None:
    """Make a token and print it. It is shown this once: only its hash is kept.

    Exit code 12 if there is no such organization.
    """
    from ops.endpoints import database_of
    from ops.group_links import desk
    from settings import get_settings

    with desk.opened(database_of(get_settings())) as connection:
        token = desk.add_token(connection, organization, name)
    typer.echo(token.text)
    typer.echo(f"Keep it: it is not shown again. `rajada tokens revoke {token.id}` ends it.", err=True)


@app.command("ls")
def ls(
    organization: Annotated[str | None, typer.Option(help="Of this organization alone.")] = None,
    all_: Annotated[bool, typer.Option("--all", help="Revoked ones, too.")] = False,
    json: Json = False,
) -> None:
    """Show the tokens, newest first; nothing secret."""
    from ops.endpoints import database_of
    from ops.group_links import desk
    from settings import get_settings

    with desk.opened(database_of(get_settings())) as connection:
        found = desk.tokens(connection, organization, revoked=all_)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(found).decode())
        return
    for one in found:
        ended = f", revoked {one.revoked_at:%Y-%m-%d %H:%M}" if one.revoked_at else ""
        who = f"  {one.name}" if one.name else ""
        typer.echo(f"{one.id}  {one.organization_id}{who}  made {one.made_at:%Y-%m-%d %H:%M}{ended}")
    if not found:
        typer.echo("No tokens; `rajada tokens add ORGANIZATION` makes one.")


@app.command("revoke")
def revoke(token: Annotated[str, typer.Argument(metavar="ID", help="As `ls` shows it.")]) -> None:
    """Revoke a token: 5 s later nobody is let in with it. Exit code 12 if there is no such token."""
    from ops.endpoints import database_of
    from ops.group_links import desk
    from settings import get_settings

    with desk.opened(database_of(get_settings())) as connection:
        desk.revoke_token(connection, token)
    typer.echo(f"{token} is revoked.")
