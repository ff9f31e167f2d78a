"""`rajada jobs`: the jobs, and orders to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import typer

from ops.commands import job_asks, job_orders
from ops.commands.selecting import Json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.table import Table

    from ops.job_rows import Listed

app = typer.Typer(help="Look at jobs and give orders to them.", no_args_is_help=True)
job_orders.add_to(app)
app.command("ask")(job_asks.ask)

_ERROR = 60
"""Characters of an error in the list."""


@app.command("ls")
def ls(
    status: Annotated[
        list[str] | None,
        typer.Option("--status", help="pending, running, held, done, failed or dead."),
    ] = None,
    kind: Annotated[
        list[str] | None, typer.Option("--kind", help="inbound_turn, group_link_template.")
    ] = None,
    organization: Annotated[
        list[str] | None, typer.Option("--organization", metavar="ID", help="Whose.")
    ] = None,
    contact: Annotated[str | None, typer.Option("--contact", metavar="ID", help="For whom.")] = None,
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="Made since: 2h, 3d ago, or an ISO time; or: ever.")
    ] = "1d",
    limit: Annotated[int, typer.Option(min=1, help="The newest so many.")] = 50,
    json: Json = False,
) -> None:
    """List jobs, the newest first: where each is, and when it runs next."""
    import time
    from datetime import UTC, datetime

    from rich.console import Console

    from ops.endpoints import database_of
    from ops.job_rows import STATUSES, Which, job_rows
    from ops.moments import moment
    from settings import get_settings

    if unknown := sorted({*(status or ())} - {*STATUSES}):
        raise typer.BadParameter(
            f"{', '.join(unknown)}: it is one of {', '.join(STATUSES)}", param_hint="--status"
        )
    try:
        begin = None if since == "ever" else moment(since, datetime.now(UTC))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from error
    which = Which(
        statuses=status,
        kinds=kind,
        organizations=[_uuid(one, "--organization") for one in organization] if organization else None,
        contact=_uuid(contact, "--contact") if contact else None,
        since=begin,
    )
    found = job_rows(database_of(get_settings()), which, limit)
    now_ms = time.time_ns() // 1_000_000
    if json:
        typer.echo(_as_json(found, now_ms))
    elif found:
        Console(highlight=False).print(_table(found, now_ms))
        if len(found) == limit:
            typer.echo(f"The newest {limit}; --limit shows more.")
    else:
        typer.echo("There are no such jobs" + (f" since {since}." if begin is not None else "."))


@app.command("show")
def show(id_: Annotated[str, typer.Argument(metavar="ID", help="Of a job.")], json: Json = False) -> None:
    """Show a job: where it is, when it runs next, and its whole story. Exit code 12 if nobody knows it."""
    import time

    import msgspec
    from rich.console import Console

    from ops.endpoints import bootstrap_of, database_of
    from ops.errors import NotFound
    from ops.job_rows import Which, job_rows
    from ops.why.show import as_json, timeline
    from ops.why.visit import why
    from settings import get_settings

    settings, asked = get_settings(), _uuid(id_, "ID")
    url = database_of(settings)
    rows = job_rows(url, Which(ids=[asked]), 1)
    story = why(url, bootstrap_of(settings), settings, asked)
    if not rows and story.kind != "job":
        raise NotFound(
            f"There is no job {asked} in job_queue, in group_link_dispatch_queue or in the trace"
            + (f"; it is the id of {_article(story.kind)}: `rajada why {asked}`" if story.kind else "")
            + "."
        )
    if json:
        row = msgspec.json.encode(_told(rows[0], time.time_ns() // 1_000_000)) if rows else b"null"
        typer.echo(f'{{"job":{row.decode()},"story":{as_json(story)}}}')
        return
    console = Console(highlight=False)
    if rows:
        console.print(_columns(rows[0]))
    console.print(timeline(story))


def _table(found: Sequence[Listed], now_ms: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("MADE", "JOB", "KIND", "STATUS"):
        table.add_column(title, no_wrap=True)
    table.add_column("NOW", overflow="fold")
    table.add_column("ERROR", overflow="fold")
    styles = {"dead": "red", "failed": "yellow", "held": "yellow", "done": "green", "running": "cyan"}
    for job in found:
        status = "held" if job.held else job.status
        error = "" if job.last_error is None or job.status == "done" else job.last_error[:_ERROR]
        table.add_row(
            f"{job.created_at.astimezone():%m-%d %H:%M:%S}", job.id, job.kind,
            Text(status, styles.get(status, "")), Text(job.now(now_ms).text), Text(error, "dim"),
        )  # fmt: skip
    return table


def _columns(job: Listed) -> Table:
    """What the row says beside the story."""
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2))
    for name, value in (
        ("kind", job.kind),
        ("status", "held" if job.held else job.status),
        ("attempts", f"{job.attempts} of {job.max_attempts}"),
        ("priority", str(job.priority)),
        ("messages", str(job.events)),
        ("made", f"{job.created_at.astimezone():%Y-%m-%d %H:%M:%S%z}"),
        ("last error", job.last_error or ""),
    ):
        if value:
            table.add_row(Text(f"  {name}", "dim"), Text(value))
    return table


def _told(job: Listed, now_ms: int) -> dict[str, object]:
    from dataclasses import asdict

    now = job.now(now_ms)
    told = {**asdict(job), "status": "held" if job.held else job.status}
    return {**told, "now": {"state": now.state, "text": now.text, "at_ms": now.at_ms}}


def _as_json(found: Sequence[Listed], now_ms: int) -> str:
    import msgspec

    return msgspec.json.encode([_told(job, now_ms) for job in found]).decode()


def _article(kind: str | None) -> str:
    return f"an {kind}" if kind == "event" else f"a {kind}"


def _uuid(text: str, hint: str) -> str:
    try:
        return str(UUID(text.strip()))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a UUID", param_hint=hint) from error
