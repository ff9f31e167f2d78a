"""`rajada settings`: every setting, what it is here and now, and what it means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from ops.settings_page import Told
    from settings import Settings


def settings(
    word: Annotated[
        str | None, typer.Argument(metavar="WORD", help="Explain those with this in their name.")
    ] = None,
    json: Json = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the page docs/settings.md.")] = False,
) -> None:
    """Show every setting as it is here and now, or explain those with WORD in their name.

    Of a secret it says only whether it is set.
    """
    from rich.console import Console

    from ops.errors import NotFound
    from ops.settings_page import as_markdown, settings_told
    from settings import get_settings

    if markdown:
        if json or word is not None:
            raise typer.BadParameter(
                "the page is whole: give neither WORD nor --json", param_hint="--markdown"
            )
        typer.echo(as_markdown())
        return
    asked = [one for one in settings_told() if word is None or word.lower() in one.variable.lower()]
    if not asked:
        raise NotFound(f"No setting has {word!r} in its name. `rajada settings` lists all of them.")
    now = get_settings()
    if json:
        typer.echo(_as_json(asked, now))
        return
    console = Console(highlight=False)
    console.print(_table(asked, now) if word is None else _explained(asked, now))
    if word is None:
        console.print("* = set here. `rajada settings WORD` explains; docs/settings.md has all of it.")


def _as_json(asked: Sequence[Told], now: Settings) -> str:
    import msgspec

    from ops.settings_page import value_of

    told = [
        {
            "variable": one.variable,
            "value": value_of(one, now),
            "set": one.field in now.model_fields_set,
            "type": one.type,
            "unit": one.unit,
            "default": one.default,
            "meaning": one.meaning,
        }
        for one in asked
    ]
    return msgspec.json.encode(told).decode()


def _table(asked: Sequence[Told], now: Settings) -> RenderableType:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from ops.settings_page import value_of

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("setting", no_wrap=True)
    table.add_column("now", overflow="fold")
    table.add_column("unit")
    for one in asked:
        mark = "*" if one.field in now.model_fields_set else " "
        table.add_row(Text(f"{mark} {one.variable}"), Text(value_of(one, now)), one.unit)
    return table


def _explained(asked: Sequence[Told], now: Settings) -> RenderableType:
    from rich.text import Text

    from ops.settings_page import value_of

    paragraphs = Text()
    for one in asked:
        unit = f" {one.unit}" if one.unit else ""
        paragraphs.append(one.variable, "bold")
        paragraphs.append(f" = {value_of(one, now)}{unit}\n  {one.meaning}\n  {one.type}; ")
        paragraphs.append(f"default: {one.default or 'empty'}\n")
    return paragraphs
