"""`rajada schemas`: our Avro schemas and the registry that SCHEMA_REGISTRY_URL names (docs/schemas.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ops.registered import Standing
    from schemas.registry import SchemaRegistry

app = typer.Typer(help="Our Avro schemas in a schema registry.", no_args_is_help=True)


@app.command("register")
def register(json: Json = False) -> None:
    """Register every committed version that the registry lacks, and let it refuse what can't read older ones.

    Run it before the processes of a new version start; they only look ids up. Exit code 10 if the registry
    refused a schema.
    """
    from ops import registered

    _told(registered.register, json=json)


@app.command("check")
def check(json: Json = False) -> None:
    """Tell what the registry has of our schemas, and what it would refuse; changes nothing.

    Exit code 10 if a schema is missing, or would be refused, or if a committed version can't read older ones.
    """
    from ops import registered

    _told(registered.check, json=json)


def _told(look: Callable[[SchemaRegistry], Sequence[Standing]], *, json: bool) -> None:
    import msgspec

    from ops.errors import OpsError, Unreachable
    from ops.registered import BAD, our_own_problems
    from schemas.registry import RegistryAway, registry_of
    from settings import get_settings

    registry = registry_of(get_settings())
    if registry is None:
        raise OpsError(
            "No registry is named, and none is needed: records say by themselves which schema they have. Set "
            "SCHEMA_REGISTRY_URL to use one (docs/schemas.md)."
        )
    try:
        standings = look(registry)
    except RegistryAway as error:
        raise Unreachable(str(error)) from error
    finally:
        registry.close()
    ours = our_own_problems()
    if json:
        told = {"registry": registry.url, "problems": ours, "schemas": standings}
        typer.echo(msgspec.json.encode(told).decode())
    else:
        for one in standings:
            place = f"{one.subject}  {one.record} {one.version}"
            news = "registered as" if one.made else "has the id"
            typer.echo(f"{place}: {one.problem or f'{news} {one.id}'}")
        for problem in ours:
            typer.echo(problem)
    if ours or any(one.problem for one in standings):
        raise typer.Exit(BAD)
