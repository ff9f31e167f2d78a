"""docs/commands.md, the part that tells every argument and option, read from the command line itself.

`python -m ops.commands_page` prints the whole page; a test holds the page to it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from ops.cli import tree
from ops.examples import EXAMPLES
from ops.exit_codes import as_markdown as tables

PAGE: Final = Path(__file__).parents[1] / "docs/commands.md"
BEGIN: Final = "<!-- from here on: python -m ops.commands_page -->"


def all_commands() -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
    """Name, as `dlq ls`, and command of everything that can be run."""

    def walk(command: object, path: tuple[str, ...]) -> Iterator[tuple[str, TyperCommand | TyperGroup]]:
        if isinstance(command, TyperCommand) or (isinstance(command, TyperGroup) and _runs(command, path)):
            yield " ".join(path), command
        if isinstance(command, TyperGroup):
            for name, one in command.commands.items():
                yield from walk(one, (*path, name))

    yield from walk(tree(), ())


def _runs(group: TyperGroup, path: tuple[str, ...]) -> bool:
    """Whether a group is a command, too."""
    return bool(path) and group.invoke_without_command


def as_markdown() -> str:
    """The generated part: exit codes, commands, and each command by itself."""
    return "\n".join([BEGIN, "", tables(), "", *_reference()])


def _reference() -> Iterator[str]:
    for name, command in all_commands():
        given = [one for one in command.params if isinstance(one, TyperArgument)]
        options = [one for one in command.params if isinstance(one, TyperOption) and one.name != "help"]
        usage = " ".join(
            [f"rajada {name}", *(_argument(one) for one in given), *(["[OPTIONS]"] if options else [])]
        )
        yield f"## rajada {name}"
        yield ""
        yield _escaped(" ".join((command.help or "").split()))
        yield ""
        yield "```sh"
        yield f"{usage}"
        yield from (f"{line}" for line in EXAMPLES.get(name, ()))
        yield "```"
        yield ""
        rows = [(f"`{_argument(one)}`", str(getattr(one, "help", None) or "")) for one in given]
        rows += [(_option(one), _meaning(one)) for one in options]
        if rows:
            yield "| | |"
            yield "| --- | --- |"
            yield from (f"| {left} | {_escaped(right)} |" for left, right in rows)
            yield ""


def _argument(one: TyperArgument) -> str:
    name = (one.metavar or (one.name or "").rstrip("_").upper()).strip("[].…")
    name = f"{name}..." if one.nargs == -1 else name
    return name if one.required else f"[{name}]"


def _option(one: TyperOption) -> str:
    names = ", ".join(f"`{name}`" for name in (*one.opts, *one.secondary_opts))
    if one.is_flag or one.secondary_opts:
        return names
    return f"{names} {one.metavar or one.opts[0].rsplit('-')[-1].upper()}"


def _meaning(one: TyperOption) -> str:
    told = one.help or ""
    if one.is_flag or one.multiple or one.default is None:
        return told
    default = f"{one.default:g}" if isinstance(one.default, float) else str(one.default)
    return f"{told} Default: {default}."


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*")


def whole() -> str:
    """The page: what people wrote, and what is read from the commands."""
    return f"{PAGE.read_text().split(BEGIN)[0]}{as_markdown()}"


if __name__ == "__main__":
    print(whole(), end="")
