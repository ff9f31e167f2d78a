"""`rajada topics acls`: what each process may do in Kafka, as its tool's commands, JSON, or done at once."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from ops.commands.selecting import Json


def acls(
    which: Annotated[
        list[str] | None, typer.Argument(metavar="[ROLE]…", help="These alone: relay, worker, delays, …")
    ] = None,
    principal: Annotated[
        list[str] | None,
        typer.Option(metavar="ROLE=PRINCIPAL", help="Who a role is in Kafka; else User:rajada-<role>."),
    ] = None,
    json: Json = False,
    apply: Annotated[bool, typer.Option("--apply", help="Add them to Kafka's access list.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before that.")] = False,
) -> None:
    """Print the access list that each process needs as commands of kafka-acls.sh, or add it to Kafka's.

    Nothing is ever taken away. docs/access.md tells what each role is for.
    """
    from ops.endpoints import bootstrap_of
    from ops.kafka_roles import ROLES, commands, entries, rights_of
    from settings import get_settings

    settings = get_settings()
    wanted = which or list(ROLES)
    for role in wanted:
        rights_of(role)
    named = _named(principal or [], wanted)
    found = [
        entry for role in wanted for entry in entries(role, named.get(role, f"User:rajada-{role}"), settings)
    ]
    if json:
        import msgspec

        typer.echo(msgspec.json.encode(found).decode())
    elif not apply:
        bootstrap = settings.kafka_bootstrap_servers or "BOOTSTRAP"
        typer.echo("\n".join(commands(found, bootstrap)))
    if not apply:
        return
    from ops.kafka_acls import apply as give

    bootstrap = bootstrap_of(settings)
    if not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"it would add {len(found)} entries to the access list of {bootstrap}: give --yes, or look "
                "first without --apply",
                param_hint="--yes",
            )
        typer.confirm(f"Add {len(found)} entries to the access list of {bootstrap}?", abort=True)
    give(bootstrap, found)
    typer.echo(f"{bootstrap}: {len(found)} entries for {', '.join(wanted)}.", err=json)


def _named(given: list[str], wanted: list[str]) -> dict[str, str]:
    """Role → principal, as told on the command line."""
    named = {}
    for one in given:
        role, equals, who = one.partition("=")
        if not equals or role not in wanted or not who.startswith("User:"):
            raise typer.BadParameter(
                f"{one!r} is not ROLE=User:NAME of a role that is asked for", param_hint="--principal"
            )
        named[role] = who
    return named
