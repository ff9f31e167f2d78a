"""`rajada demo`: see the pipeline at work within a minute."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ops.demo.accounts import Accounts


def demo(
    seconds: Annotated[
        float, typer.Option(min=10.0, help="Squeeze the minute, and its windows, into so many seconds.")
    ] = 60.0,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave everything running afterwards, for a look around.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print one JSON object at the end.")] = False,
) -> None:
    """Play a minute of a clinic's WhatsApp on real Kafka and Postgres, show it live and account for it.

    A stand-in engine answers, and has its troubles: overloaded, slow, unwilling. The demo has a data folder
    of its own; on given servers (KAFKA_BOOTSTRAP_SERVERS, DATABASE_URL) a database and a topic prefix. Exit
    code 10 if anything is unaccounted for.
    """
    import signal

    from rich.console import Console

    from logs import configure_logging
    from ops.demo.accounts import as_json
    from ops.demo.report import report
    from ops.demo.run import Unaccounted, run_demo
    from ops.given import shown
    from settings import get_settings

    settings = get_settings()
    configure_logging(settings)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: stop, account, clean up
    console = Console(stderr=json, highlight=False)

    def tell(accounts: Accounts) -> None:
        if not json:
            console.print(report(accounts))

    run = run_demo(settings, console, seconds=seconds, keep=keep, quiet=json, tell=tell)
    accounts, postgres = run.accounts, shown(run.database_url)
    if json:
        typer.echo(as_json(accounts, {"kafka": run.kafka, "postgres": postgres, "kept": keep}))
    elif keep:
        told = _kept(run.home, run.kafka, postgres, run.prefix, accounts.example)
        console.print(told, markup=False, soft_wrap=True)
    else:
        console.print(_afterwards(run.home, run.prefix, accounts.example), markup=False, soft_wrap=True)
    if not accounts.complete:
        raise typer.Exit(130)
    if not accounts.right:
        raise Unaccounted(
            f"{len(accounts.lost) + accounts.noise_lost} of the run are lost, {len(accounts.doubled)} are in "
            f"more than one job; {len(accounts.unended)} jobs have no end, {len(accounts.misanswered)} "
            f"another number of answers than their end says{_amiss(accounts)}. The logs are in "
            f"{run.home}/logs."
        )


def _amiss(accounts: Accounts) -> str:
    return f"; not as they must be: {', '.join(accounts.amiss)}" if accounts.amiss else ""


def _afterwards(home: Path, prefix: str, example: str) -> str:
    """How to look at what was played when nothing runs any more."""
    if prefix:
        return (
            "\nThe demo's database and topics are removed from the given servers; `rajada demo --keep` "
            "leaves them for a look around."
        )
    return (
        f"\nNothing runs any more; the data are in {home}. To look at them:\n"
        f"  export RAJADA_HOME={quote(str(home))}\n"
        f"  rajada up --servers-only -d && rajada why {example or 'ID'}\n"
        "  rajada down"
    )


def _kept(home: Path, kafka: str, postgres: str, prefix: str, example: str) -> str:
    """Where things are, how to look at them, and how they are stopped."""
    under = f", topics {prefix}…" if prefix else ""
    commands = f"rajada why {example or 'ID'}; rajada status; rajada dlq ls"
    look = f"  export RAJADA_HOME={quote(str(home))}\n  {commands}\n"
    return (
        f"\nStill running: Kafka {kafka}{under}; Postgres {postgres}.\n{'' if prefix else look}"
        f"Play again with `rajada demo --keep`; stop with `RAJADA_HOME={home} rajada down`."
    )
