"""`rajada relay`, `delays`, `sink`, `topics`, `migrate`: processes and preparations, one at a time."""

from __future__ import annotations

import signal
import sys
import threading
from types import FrameType
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from settings import Settings

topics = typer.Typer(help="Make the topics, or check them against what they must be.", no_args_is_help=True)


def relay() -> None:
    """Publish the event log from Postgres to Kafka, until SIGTERM or Ctrl-C."""
    from functools import partial

    from db.relay import run_relay
    from ops.endpoints import bootstrap_of, database_of
    from streams.unpublished import outcome_of_too_large

    settings = _begin_with_records()
    run_relay(
        database_of(settings),
        bootstrap_of(settings),
        settings,
        _stopped_by_signals(),
        obituary=partial(outcome_of_too_large, language=settings.language),
    )


def delays() -> None:
    """Bring delayed records to the jobs when they are due, until SIGTERM or Ctrl-C."""
    from ops.endpoints import bootstrap_of
    from streams.delays.process import run_delays

    settings = _begin_with_records()
    run_delays(bootstrap_of(settings), settings, _stopped_by_signals())


def sink() -> None:
    """Bring outcomes from Kafka back to Postgres, until SIGTERM or Ctrl-C."""
    from ops.endpoints import bootstrap_of, database_of
    from sinks.outcomes import run_sink

    settings = _begin_with_records()
    run_sink(database_of(settings), bootstrap_of(settings), settings, _stopped_by_signals())


def migrate(
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would do; change nothing.")
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Don't ask before changing a CRM's database.")
    ] = False,
) -> None:
    """Bring the database to the shape Rajada needs; an existing CRM gets our additions only.

    Shows first what it will do. On an existing CRM's database it asks before it does it; where nobody can be
    asked, it wants --yes.
    """
    from db.migrate import migrate as apply
    from db.migrate import pending
    from db.plan import plan
    from ops.endpoints import database_of
    from ops.given import shown, whose_tables
    from ops.sealed import seal_what_is_plain

    settings = _begin()
    url = database_of(settings)
    crm = whose_tables(url)
    steps, files = plan(url, crm=crm), pending(url, crm=crm)
    for step in steps:
        typer.echo(f"would {step}" if dry_run else f"will {step}")
    if dry_run:
        left = f"{len(files)} migrations would be applied" if files else "nothing is left to do"
        typer.echo(f"{shown(url)}: {left}. Nothing was changed.")
        return
    if crm == "existing" and files and not yes:
        if not sys.stdin.isatty():
            raise typer.BadParameter(
                f"{shown(url)} is an existing CRM's database: give --yes to change it as told above, or look "
                "first with --dry-run",
                param_hint="--yes",
            )
        typer.confirm(f"Change {shown(url)}, an existing CRM's database, as told above?", abort=True)
    applied = apply(url, crm=crm)
    for name in applied:
        typer.echo(f"applied {name}")
    if sealed := seal_what_is_plain(url, settings):
        typer.echo(sealed)
    kind = "an existing CRM's database" if crm == "existing" else "our own tables"
    typer.echo(f"{shown(url)} is up to date ({kind}).")


@topics.command("ensure")
def ensure() -> None:
    """Make the topics that are missing; those that exist are left as they are."""
    from ops.endpoints import bootstrap_of
    from streams.topics import ensure_topics

    settings = _begin()
    made = ensure_topics(bootstrap_of(settings), settings)
    typer.echo("\n".join(f"made {name}" for name in made) or "All topics are there.")


@topics.command("check")
def check() -> None:
    """Tell where the topics differ from what they must be; nothing is changed. Exit code 3 if they do."""
    from ops.endpoints import bootstrap_of
    from streams.topics import check_topics

    settings = _begin()
    drifts = check_topics(bootstrap_of(settings), settings)
    for drift in drifts:
        typer.echo(str(drift))
    if drifts:
        raise typer.Exit(3)
    typer.echo("All topics are as they must be.")


def _begin() -> Settings:
    from logs import configure_logging
    from settings import get_settings

    settings = get_settings()
    configure_logging(settings)
    return settings


def _begin_with_records() -> Settings:
    """As `_begin`, of a process that writes records: it knows their schemas' ids, or it doesn't start."""
    from schemas.codec import settle

    settings = _begin()
    settle()
    return settings


def _stopped_by_signals() -> threading.Event:
    """An event that SIGTERM and SIGINT set; a second one ends the process at once."""
    stop = threading.Event()

    def asked(number: int, frame: FrameType | None) -> None:
        stop.set()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    return stop
