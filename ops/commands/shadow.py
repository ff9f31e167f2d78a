"""`rajada shadow`: decide beside an old drain without doing anything, and tell where the two differ."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from ops.shadow.report import Report

app = typer.Typer(
    help="Decide beside an old drain without doing anything, and tell where the two differ (docs/shadow.md).",
    no_args_is_help=True,
)

_DIFFERENCES = 10
"""Exit code when the two decide differently: it was done, and something is not as it should be."""


@app.command("run")
def run(
    relay: Annotated[
        bool | None,
        typer.Option(
            "--relay/--no-relay",
            help="Run the installation's relay, too; by itself only where nobody reads its slot.",
        ),
    ] = None,
) -> None:
    """Run the worker as a shadow until SIGTERM or Ctrl-C: it reads the events, decides, and does nothing.

    It writes topics that begin with `shadow.` and nothing else; no job is run and no table is changed.
    """
    from logs import configure_logging
    from ops.endpoints import bootstrap_of, database_of
    from ops.shadow.process import Shadow, somebody_publishes
    from settings import get_settings

    settings = get_settings()
    configure_logging(settings)
    url, bootstrap = database_of(settings), bootstrap_of(settings)
    with_relay = not somebody_publishes(url, settings) if relay is None else relay
    if with_relay:
        typer.echo(
            f"The relay runs along: it holds the slot {settings.slot}. When you stop for long, drop the slot "
            "(`rajada shadow clean --slot`), else Postgres keeps WAL for it."
        )
    Shadow(settings, bootstrap, url, relay=with_relay, say=typer.echo).run()


@app.command("report")
def report(
    since: Annotated[
        str, typer.Option(metavar="SINCE", help="What was decided since: 30m, 2h, 3d, or an ISO time.")
    ] = "1d",
    organization: Annotated[
        str | None, typer.Option(metavar="ID", help="Of this organization alone.")
    ] = None,
    most: Annotated[int, typer.Option(min=1, help="Windows at most, the newest.")] = 100_000,
    json: Annotated[bool, typer.Option("--json", help="Print JSON for programs.")] = False,
) -> None:
    """Tell where the shadow and the old drain decided differently: how often, of which kind, with examples.

    Exit code 0: nowhere; 10: somewhere; 12: there is nothing to compare.
    """
    from datetime import UTC, datetime

    import msgspec
    from rich.console import Console

    from ops.endpoints import bootstrap_of, database_of
    from ops.errors import NotFound
    from ops.moments import moment
    from ops.shadow.report import report as made_of
    from settings import get_settings

    try:
        since_ms = int(moment(since, datetime.now(UTC)).timestamp() * 1000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--since") from error
    settings = get_settings()
    found = made_of(
        database_of(settings),
        bootstrap_of(settings),
        settings,
        since_ms,
        most=most,
        organization=organization.lower() if organization else None,
    )
    if json:
        typer.echo(msgspec.json.encode(found).decode())
    elif found.windows:
        _show(found, Console(highlight=False))
    if not found.windows and not found.differs:
        raise NotFound(
            f"The shadow has decided nothing since {since}."
            + (f" {found.behind:,} events wait for it: does it run?" if found.behind else "")
        )
    if found.differs:
        raise typer.Exit(_DIFFERENCES)


@app.command("clean")
def clean(
    slot: Annotated[
        bool,
        typer.Option("--slot", help="Drop the installation's replication slot and publication, too."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before deleting.")] = False,
) -> None:
    """Delete what a shadow has left: its topics, its group, its folder. Asks first.

    The slot is the installation's, and stays for the switch unless --slot is said.
    """
    from ops.endpoints import bootstrap_of, database_of
    from ops.errors import AlreadyRunning
    from ops.shadow import clean as cleaning
    from settings import get_settings

    settings = get_settings()
    bootstrap, url = bootstrap_of(settings), database_of(settings)
    found = cleaning.left(bootstrap, url, settings)
    if slot and found.slot is not None and found.slot.active:
        raise AlreadyRunning(f"Somebody reads the slot {settings.slot}: stop the relay first.")
    drops_slot = slot and found.slot is not None
    lines = [f"topic {one}" for one in found.topics] + [f"group {one}" for one in found.groups]
    lines += [f"folder {found.folder}"] * (found.folder is not None)
    lines += [f"replication slot {settings.slot}, publication {settings.publication}"] * drops_slot
    if lines:
        typer.echo("\n".join(lines))
        if not yes:
            if not sys.stdin.isatty():
                raise typer.BadParameter("give --yes to delete these", param_hint="--yes")
            typer.confirm("Delete these?", abort=True)
        cleaning.clean(bootstrap, found)
        if drops_slot:
            cleaning.drop_slot(url, settings)
        typer.echo("Deleted.")
    else:
        typer.echo("A shadow has left nothing.")
    if found.slot is not None and not drops_slot:
        kept = f"{found.slot.retained_bytes / (1 << 20):,.0f} MiB of WAL"
        what = "is read" if found.slot.active else f"is read by nobody, and Postgres keeps {kept} for it"
        typer.echo(f"The slot {settings.slot} stays; it {what}.")


def _show(found: Report, console: Console) -> None:
    from rich.table import Table

    from ops.moments import local, span
    from ops.shadow.words import WORDS

    def line(text: str) -> None:
        console.print(text, markup=False, soft_wrap=True)

    line(
        f"{found.windows:,} windows with {found.events:,} events, decided since "
        f"{local(found.since_ms):%Y-%m-%d %H:%M:%S%z}"
    )
    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("WINDOWS", justify="right")
    table.add_column("")
    table.add_column("WHAT IT IS")
    groups = {
        "the same": found.same,
        "different": found.differences,
        "not comparable": found.not_comparable,
    }
    for group, counts in groups.items():
        for name, count in counts.items():
            table.add_row(f"{count:,}", group, f"{WORDS[name].title}: {WORDS[name].is_}")
    console.print(table)
    for name in (*found.differences, *found.not_comparable):
        reasons = ", ".join(f"{what} {count:,}" for what, count in found.by_reason.get(name, {}).items())
        line(f"\n{name}: {WORDS[name].title}. Ours: {reasons}")
        if WORDS[name].look:
            line(f"  Look at: {WORDS[name].look}.")
        for one in found.examples.get(name, []):
            first = f" (at first: {one.first_look})" if one.first_look not in (None, one.ours) else ""
            jobs = f", jobs {' '.join(one.jobs)}" if one.jobs else ""
            line(
                f"  {local(one.at_ms):%Y-%m-%d %H:%M:%S}  ours: {one.ours}{first}; "
                f"theirs: {one.theirs}{jobs}; conversation {one.conversation_id}; "
                f"events {' '.join(one.events)}"
            )
    for note in found.notes:
        line(note)
    if found.behind:
        age = span(found.until_ms - found.since_ms)
        line(f"{found.behind:,} events of the last {age} wait for the shadow: is it on?")
