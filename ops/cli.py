"""The `rajada` command: what there is to run, and how an error is told.

Only the registration is here; each command imports what it needs when it is run, so that `rajada --help`
is quick. Exit codes: `ops.errors.exit_code_of`.
"""

from __future__ import annotations

import os
import sys
from functools import cache
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ops.commands import (
    acls,
    alerts,
    connector,
    demo,
    dlq,
    doctor,
    engine,
    forget,
    group_links,
    jobs,
    pauses,
    processes,
    produce,
    reconcile,
    replay,
    roles,
    schemas,
    settings,
    shadow,
    stack,
    sweep,
    tokens,
    topics,
    web,
    whatsapp,
    why,
)
from ops.errors import exit_code_of
from ops.examples import show_in

if TYPE_CHECKING:
    from schemas.framing import Ids

app = typer.Typer(
    name="rajada",
    help="Turns bursts of customer messages into one job each: Postgres event log, Kafka, and back.",
    epilog="For example:\n\nrajada up -d --with-engine\n\nrajada doctor\n\nrajada why ID",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version

        typer.echo(f"rajada {version('rajada')}")
        raise typer.Exit


@app.callback()
def _begin(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Turns bursts of customer messages into one job each: Postgres event log, Kafka, and back."""
    from schemas.framing import ask

    ask(_registry)


def _registry() -> Ids | None:
    """The schema registry that the settings name, asked for with the first record."""
    from schemas.registry import registry_of
    from settings import get_settings

    return registry_of(get_settings())


_STACK = "The whole stack"
_PARTS = "Its parts, one at a time"
_TOOLS = "Tools"

app.command("demo", rich_help_panel=_STACK)(demo.demo)
app.command("up", rich_help_panel=_STACK)(stack.up)
app.command("down", rich_help_panel=_STACK)(stack.down)
app.command("status", rich_help_panel=_STACK)(stack.status)
app.command("logs", rich_help_panel=_STACK)(stack.logs)
app.command("relay", rich_help_panel=_PARTS)(processes.relay)
app.command("delays", rich_help_panel=_PARTS)(processes.delays)
app.command("sink", rich_help_panel=_PARTS)(processes.sink)
app.command("web", rich_help_panel=_PARTS)(web.web)
app.command("migrate", rich_help_panel=_PARTS)(processes.migrate)
app.command("roles", rich_help_panel=_PARTS)(roles.roles)
app.command("doctor", rich_help_panel=_TOOLS)(doctor.doctor)
app.command("engine", rich_help_panel=_TOOLS)(engine.engine)
app.command("forget", rich_help_panel=_TOOLS)(forget.forget)
app.command("pause", rich_help_panel=_TOOLS)(pauses.pause)
app.command("resume", rich_help_panel=_TOOLS)(pauses.resume)
app.command("produce", rich_help_panel=_TOOLS)(produce.produce)
app.command("replay", rich_help_panel=_TOOLS)(replay.replay)
app.command("reconcile", rich_help_panel=_TOOLS)(reconcile.reconcile)
app.command("settings", rich_help_panel=_TOOLS)(settings.settings)
app.command("sweep", rich_help_panel=_TOOLS)(sweep.sweep)
app.command("why", rich_help_panel=_TOOLS)(why.why)
app.add_typer(processes.topics, name="topics", rich_help_panel=_PARTS)
processes.topics.command("describe")(topics.describe)
processes.topics.command("acls")(acls.acls)
app.add_typer(connector.app, name="connector", rich_help_panel=_PARTS)
app.add_typer(shadow.app, name="shadow", rich_help_panel=_TOOLS)
app.add_typer(schemas.app, name="schemas", rich_help_panel=_TOOLS)
app.add_typer(dlq.app, name="dlq", rich_help_panel=_TOOLS)
app.add_typer(alerts.app, name="alerts", rich_help_panel=_TOOLS)
app.add_typer(jobs.app, name="jobs", rich_help_panel=_TOOLS)
app.add_typer(group_links.app, name="group-links", rich_help_panel=_TOOLS)
app.add_typer(tokens.app, name="tokens", rich_help_panel=_TOOLS)
app.add_typer(whatsapp.app, name="whatsapp", rich_help_panel=_TOOLS)
show_in(app)


@cache
def tree() -> TyperGroup:
    """All commands as objects, for pages and tests that look at them or run one: made once."""
    made = get_command(app)
    assert isinstance(made, TyperGroup), "there are several commands"
    return made


def main() -> None:
    """Run the command line; an error is told in red without a traceback, unless RAJADA_DEBUG is set."""
    try:
        app()
    except Exception as error:
        if os.environ.get("RAJADA_DEBUG"):
            raise
        typer.secho(_told(error), fg=typer.colors.RED, err=True)
        sys.exit(exit_code_of(error))


def _told(error: Exception) -> str:
    """The message of an error of ours; of any other its kind too, and how to see where it comes from."""
    from settings import RajadaError

    if isinstance(error, RajadaError):
        return str(error)
    return f"{type(error).__name__}: {error}\nRAJADA_DEBUG=1 shows where this comes from."


if __name__ == "__main__":
    main()
