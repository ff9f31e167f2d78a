"""`rajada jobs ask`: what the workers know of jobs that their rows call unfinished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import DryRun, Json, Yes

if TYPE_CHECKING:
    from ops.job_asks import Asked

Ids = Annotated[list[str] | None, typer.Argument(metavar="[ID]...", help="Of jobs; none: all that fit.")]
Since = Annotated[
    str, typer.Option("--since", metavar="TIME", help="Made since: 2h, 3d ago, or an ISO time; or: ever.")
]
Older = Annotated[float, typer.Option("--older-s", min=0, help="Whose time came so many seconds ago.")]
Run = Annotated[bool, typer.Option("--run", help="Begin those that nobody knows.")]
Close = Annotated[bool, typer.Option("--close", help="End those that nobody knows, as failed.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="Seconds that answers are waited for.")]


def ask(
    ids: Ids = None,
    since: Since = "1d",
    older: Older = 600.0,
    run: Run = False,
    close: Close = False,
    timeout: Timeout = 60.0,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Ask the workers about jobs that their rows call unfinished, and bring the rows up to date.

    For rows that were left behind when outcomes were lost. Workers remember a job for 24 hours after its end;
    what none of them knows is listed, and begun (--run) or ended (--close) if you say so. Exit code 10 if
    there are such, 11 if answers did not come in time.
    """
    from datetime import UTC, datetime

    from db.runs import connect
    from ops.asking import asking
    from ops.commands.job_orders import uuid_of
    from ops.endpoints import bootstrap_of, database_of
    from ops.job_asks import JobAsks, unfinished
    from ops.moments import moment
    from ops.orders import Orders
    from settings import get_settings

    if run and close:
        raise typer.BadParameter("--run and --close are two ways for one job: give one of them")
    if (run or close) and json and not (yes or dry_run):
        raise typer.BadParameter("give --yes with --json")
    try:
        begin = None if since == "ever" else moment(since, datetime.now(UTC))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from error
    named = [uuid_of(one, "ID") for one in ids or ()]
    settings = get_settings()
    url = database_of(settings)
    bootstrap = bootstrap_of(settings)
    Orders(settings, bootstrap, url).refuse_if_table()
    with asking(url):
        connection = connect(url, "jobs-ask")
    with connection:
        with asking(url):
            jobs = unfinished(connection, named or None, None if named else begin, 0.0 if named else older)
        if dry_run or not jobs:
            _listed([job.id for job in jobs], json)
            return
        asks = JobAsks(settings, bootstrap, url, timeout)
        found = asks.ask(connection, jobs)
        did: Asked | None = None
        if found.unknown and (run or close):
            _confirmed(len(found.unknown), run=run, yes=yes)
            did = (asks.run if run else asks.close)(connection, found.unknown)
    _tell(found, did, "begun" if run else "ended", json)
    if found.silent or (did is not None and did.silent):
        raise typer.Exit(11)
    if found.unknown and did is None:
        raise typer.Exit(10)


def _confirmed(number: int, *, run: bool, yes: bool) -> None:
    if yes:
        return
    what = (
        "Their contacts get an answer now, those who had one already perhaps once more"
        if run
        else "They end as failed, and nobody is answered"
    )
    typer.confirm(f"No worker knows {number:,} of them. {what}. Go on?", abort=True)


def _listed(ids: list[str], json: bool) -> None:
    from ops.commands.job_orders import encoded

    if json:
        typer.echo(encoded({"would_ask": ids}))
    elif ids:
        typer.echo("\n".join(ids))
        typer.echo(f"It would ask about {len(ids):,}.")
    else:
        typer.echo("No row is unfinished for so long: there is nothing to ask.")


def _tell(found: Asked, did: Asked | None, how: str, json: bool) -> None:
    from collections import Counter

    from ops.commands.job_orders import encoded

    unknown = [job.id for job in found.unknown]
    if json:
        told = {"told": found.told, "unknown": unknown, "silent": found.silent}
        typer.echo(encoded(told | ({how: did.told, "not_yet": did.silent} if did is not None else {})))
        return
    for status, number in sorted(Counter(found.told.values()).items()):
        typer.echo(f"{number:,} told again: {status}")
    for job_id in unknown:
        typer.echo(f"{job_id} is known to no worker")
    if did is not None:
        typer.echo(f"{len(did.told):,} of them {how}.")
    elif unknown:
        typer.echo(f"{len(unknown):,} are known to nobody: `--run` begins them, `--close` ends them.")
    silent = len(found.silent) + (len(did.silent) if did is not None else 0)
    if silent:
        typer.echo(
            f"{silent:,} answers did not come in time. Do a worker and the sink run (`rajada status`)? Then "
            "ask again."
        )
