"""`rajada tokens page`: who may open the live page."""

from __future__ import annotations

from typing import Annotated

import typer

from ops.commands.selecting import Json

app = typer.Typer(help="Tokens of people who open the live page.", no_args_is_help=True)


@app.command("add")
def add(
    name: Annotated[str, typer.Argument(help="Who will use it, for people.")],
    operator: Annotated[
        bool, typer.Option("--operator", help="May act too: orders to jobs, alerts, dead letters.")
    ] = False,
    phones: Annotated[
        bool, typer.Option("--phones", help="Sees phone numbers and what is in dead letters.")
    ] = False,
    organization: Annotated[
        str | None, typer.Option("--organization", metavar="ID", help="Sees this organization alone.")
    ] = None,
    json: Json = False,
) -> None:
    """Make a token of the live page and print it. It is shown this once: only its hash is kept.

    Without options it reads, of all organizations, with phone numbers masked. Exit code 12 if there is no
    such organization.
    """
    from ops.endpoints import database_of
    from ops.group_links.desk import opened
    from ops.pages import tokens
    from settings import get_settings

    with opened(database_of(get_settings())) as connection:
        role: tokens.Role = "operator" if operator else "reader"
        token = tokens.add(connection, name, role, sees_phones=phones, organization=organization)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode({"id": token.id, "token": token.text}).decode())
        return
    typer.echo(token.text)
    typer.echo(f"Keep it: it is not shown again. `rajada tokens page revoke {token.id}` ends it.", err=True)


@app.command("ls")
def ls(
    organization: Annotated[
        str | None, typer.Option("--organization", metavar="ID", help="Of this organization alone.")
    ] = None,
    all_: Annotated[bool, typer.Option("--all", help="Revoked ones, too.")] = False,
    json: Json = False,
) -> None:
    """Show the tokens of the live page, newest first; nothing secret."""
    from ops.endpoints import database_of
    from ops.group_links.desk import opened
    from ops.pages.tokens import tokens
    from settings import get_settings

    with opened(database_of(get_settings())) as connection:
        found = tokens(connection, organization, revoked=all_)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(found).decode())
        return
    for one in found:
        whose = f"organization {one.organization_id}" if one.organization_id else "all organizations"
        phones = ", sees phones" if one.sees_phones else ""
        ended = f", revoked {one.revoked_at:%Y-%m-%d %H:%M}" if one.revoked_at else ""
        typer.echo(
            f"{one.id}  {one.name}  {one.role}{phones}, {whose}, made {one.made_at:%Y-%m-%d %H:%M}{ended}"
        )
    if not found:
        typer.echo("No tokens; `rajada tokens page add NAME` makes one.")


@app.command("revoke")
def revoke(
    token: Annotated[str, typer.Argument(metavar="ID", help="As `ls` shows it.")], json: Json = False
) -> None:
    """Revoke a token of the live page: 5 s later its sessions have ended. Exit code 12 if there is none."""
    from ops.endpoints import database_of
    from ops.group_links.desk import opened
    from ops.pages import tokens
    from settings import get_settings

    with opened(database_of(get_settings())) as connection:
        tokens.revoke(connection, token)
    if json:
        import msgspec

        typer.echo(msgspec.json.encode({"id": token, "revoked": True}).decode())
        return
    typer.echo(f"{token} is revoked.")
