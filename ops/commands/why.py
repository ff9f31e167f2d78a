"""`rajada why`: what became of a message, and why."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

import typer

from ops.commands.selecting import Json

UNKNOWN = 1
"""Exit code when nothing is known of the id."""


def why(
    about: Annotated[str, typer.Argument(metavar="ID", help="Of an event, a message, a job or a contact.")],
    json: Json = False,
) -> None:
    """Tell the whole story of an event, a message, a job or a contact: what happened, why, what comes next.

    Exit code 1 if nothing is known of the id; then it says where it looked.
    """
    from rich.console import Console

    from ops.endpoints import bootstrap_of, database_of
    from ops.why.show import as_json, timeline, unknown
    from ops.why.visit import why as ask
    from settings import get_settings

    try:
        asked = str(UUID(about.strip()))
    except ValueError as error:
        raise typer.BadParameter(f"{about!r} is not a UUID", param_hint="ID") from error
    settings = get_settings()
    story = ask(database_of(settings), bootstrap_of(settings), settings, asked)
    if json:
        typer.echo(as_json(story))
    else:
        Console(highlight=False).print(timeline(story) if story.found else unknown(story))
    if not story.found:
        raise typer.Exit(UNKNOWN)
