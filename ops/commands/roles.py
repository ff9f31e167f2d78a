"""`rajada roles`: the database's roles, one a process, each with no more rights than its process needs."""

from __future__ import annotations

import sys
from typing import Annotated

import typer


def roles(
    which: Annotated[
        list[str] | None, typer.Argument(metavar="[ROLE]…", help="These alone: relay, worker, sink, …")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Make them in the database, and the relay's publication.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before that.")] = False,
    prefix: Annotated[
        str, typer.Option(help="What their names begin with: Postgres has them once for all its databases.")
    ] = "rajada_",
) -> None:
    """Print the SQL that makes the roles of our processes and gives them their rights, or run it.

    For the owner of the CRM's tables and of our schemas, after each `rajada migrate`. Passwords stay yours.
    """
    from db import roles as database
    from ops.endpoints import database_of
    from settings import get_settings

    wanted = tuple(which) if which else database.ROLES
    scripts = [database.script(role, prefix) for role in wanted]
    if not apply:
        typer.echo("\n".join(scripts))
        return
    from ops.given import shown

    settings = get_settings()
    url = database_of(settings)
    names = ", ".join(f"{prefix}{role}" for role in wanted)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"it would make {names} in {shown(url)}: give --yes, or look first without --apply",
                param_hint="--yes",
            )
        typer.confirm(
            f"Make the roles {names} in {shown(url)}, and take all other rights from them?", abort=True
        )
    _make(url, wanted, prefix, settings.publication)
    typer.echo(f"{shown(url)}: {names}. A new one has no password yet: ALTER ROLE … PASSWORD '…'.")


def _make(url: str, wanted: tuple[str, ...], prefix: str, publication: str) -> None:
    import psycopg

    from db import roles as database
    from db.pool import conninfo_for
    from db.replication import ensure_publication
    from ops.asking import asking

    with asking(url), psycopg.connect(conninfo_for(url, "roles"), autocommit=True) as connection:
        database.apply(connection, wanted, prefix)
        if "relay" in wanted:
            ensure_publication(connection, publication)
