"""`rajada topics describe`: every topic, what lies in it, and who writes and reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ops.asyncapi import Described


def describe(
    asyncapi: Annotated[
        bool, typer.Option("--asyncapi", help="Print the AsyncAPI 3 document, as YAML.")
    ] = False,
    json: Json = False,
) -> None:
    """Tell of every topic what lies in it, its key, how long it is kept, and who writes and reads it.

    From the code and the settings alone: no Kafka is asked. `rajada topics check` compares with one.
    """
    import msgspec

    from ops.asyncapi import as_yaml, described, document
    from settings import get_settings

    settings = get_settings()
    if asyncapi:
        found = document(settings)
        typer.echo(msgspec.json.encode(found).decode() if json else as_yaml(found), nl=json)
        return
    topics = described(settings)
    if json:
        typer.echo(msgspec.json.encode(topics).decode())
        return
    _print(topics)


def _print(topics: Sequence[Described]) -> None:
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for one in topics:
        text = Text(one.name, "bold")
        text.append(f"  {one.about}\n", "not bold")
        text.append(f"  key: {one.key}\n  kept: {one.kept}; {one.partitions} partitions\n", "not bold")
        text.append(f"  written by: {', '.join(one.writers) or 'hand'}; ", "not bold")
        text.append(f"read by: {', '.join(one.readers) or 'nobody'}", "not bold")
        console.print(text)
