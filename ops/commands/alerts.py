"""`rajada alerts`: what is wrong and somebody should know; acknowledge it, resolve it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal
from uuid import UUID

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from ops.alerts import Alert, Status

app = typer.Typer(invoke_without_command=True)

Ids = Annotated[list[str], typer.Argument(metavar="ID...", help="Of alerts.")]
_MARKS = {"open": "[bold red]open[/]", "ack": "[yellow]ack[/]", "resolved": "[green]resolved[/]"}


@app.callback()
def alerts(
    context: typer.Context,
    only_open: Annotated[bool, typer.Option("--open", help="Not those that were acknowledged.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Also those that are resolved.")] = False,
    organization: Annotated[
        list[str] | None, typer.Option("--organization", metavar="ID", help="Only theirs.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="The last seen so many.")] = 50,
    json: Json = False,
) -> None:
    """List alerts that are not resolved: what happened, what to do first, since when and how often.

    An alert resolves itself when nothing it tells of is wrong any more (docs/alerts.md).
    """
    if context.invoked_subcommand is not None:
        return
    from rich.console import Console

    from ops.alerts import alerts as listed
    from ops.endpoints import database_of
    from settings import get_settings

    if only_open and everything:
        raise typer.BadParameter("give one of both", param_hint="--open, --all")
    statuses: tuple[Status, ...] = ("open", "ack")
    if only_open:
        statuses = ("open",)
    elif everything:
        statuses = ("open", "ack", "resolved")
    whose = [_uuid(one, "--organization") for one in organization] if organization else None
    found = listed(database_of(get_settings()), statuses, whose, limit)
    if json:
        typer.echo(_as_json(found))
        return
    console = Console(highlight=False)
    if not found:
        console.print("Nothing is wrong." if not everything else "There are no alerts.")
    for alert in found:
        console.print(_page(alert))


@app.command("ack")
def ack(ids: Ids, json: Json = False) -> None:
    """Say that somebody deals with alerts; the next of their kind opens another.

    Exit code 12 if there is no such alert.
    """
    _deal_with(ids, "ack", json)


@app.command("resolve")
def resolve(ids: Ids, json: Json = False) -> None:
    """Say that alerts are dealt with; what they tell of stays as it is.

    Exit code 12 if there is no such alert.
    """
    _deal_with(ids, "resolved", json)


def _deal_with(ids: Sequence[str], status: Literal["ack", "resolved"], json: bool) -> None:
    import msgspec

    from ops.alerts import deal_with
    from ops.endpoints import database_of
    from settings import get_settings

    wanted = [_uuid(one, "ID") for one in ids]
    url = database_of(get_settings())
    told = []
    for one in wanted:
        done = deal_with(url, one, status)
        told.append({"id": one, "title": done.title, "was": done.was, "status": done.status})
        if not json:
            changed = f"is {done.status} now" if done.was != done.status else f"was {done.was} already"
            typer.echo(f"{one}  {done.title}: {changed}")
    if json:
        typer.echo(msgspec.json.encode(told).decode())


def _page(alert: Alert) -> RenderableType:
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    times = f"  ×{alert.occurrences:,}" if alert.occurrences > 1 else ""
    head = Text.from_markup(_MARKS.get(alert.status, alert.status))
    head.append(f"  {alert.title}{times}", "bold")
    whose = f"organization {alert.organization_id}" if alert.organization_id else "the platform"
    since = f"since {alert.created_at.astimezone():%Y-%m-%d %H:%M:%S}"
    last = ""
    if alert.last_seen_at is not None and alert.last_seen_at > alert.created_at:
        last = f", last {alert.last_seen_at.astimezone():%Y-%m-%d %H:%M:%S}"
    ended = f", resolved {alert.resolved_at.astimezone():%Y-%m-%d %H:%M:%S}" if alert.resolved_at else ""
    lines = [
        Text(f"{alert.id}  {whose}, {since}{last}{ended}", "dim", overflow="fold"),
        *(Text(line, overflow="fold") for line in alert.body.splitlines() if line.strip()),
    ]
    return Group(head, Padding(Group(*lines), (0, 0, 1, 6)))


def _as_json(found: Sequence[Alert]) -> str:
    import msgspec

    return msgspec.json.encode(found).decode()


def _uuid(text: str, hint: str) -> str:
    try:
        return str(UUID(text.strip()))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a UUID", param_hint=hint) from error
