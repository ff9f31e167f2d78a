"""`rajada up`, `down`, `status`, `logs`: the stack of a data folder."""

from __future__ import annotations

import shutil
import signal
import time
from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from rich.table import Table

    from ops.embedded.folder import DataFolder
    from ops.supervision.run_file import RunFile
    from settings import Settings

_POLL_S = 0.1


def up(
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Return when all is ready; go on behind.")
    ] = False,
    json: Json = False,
    servers_only: Annotated[
        bool, typer.Option("--servers-only", help="Kafka, Postgres, tables and topics; no processes of ours.")
    ] = False,
    with_engine: Annotated[
        bool,
        typer.Option("--with-engine", help="Run the stand-in agent engine, too, and hand turns to it."),
    ] = False,
    with_whatsapp: Annotated[
        bool,
        typer.Option("--with-whatsapp", help="Run the stand-in WhatsApp, too, and send group links to it."),
    ] = False,
    with_debezium: Annotated[
        bool, typer.Option("--with-debezium", help="Debezium on Kafka Connect in place of the relay.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(help="With --detach: seconds to wait for all to be ready.")
    ] = 180.0,
) -> None:
    """Start Kafka, Postgres and the pipeline in the data folder, and keep them up.

    KAFKA_BOOTSTRAP_SERVERS and DATABASE_URL name servers to be used instead of the embedded ones. Turns go to
    AGENT_ENGINE_URL, and are held without it; --with-engine overrules it, and --with-whatsapp the number of
    the settings and where WhatsApp is. Ctrl-C stops everything in order; a second one kills what still stops.
    """
    from rich.console import Console

    from ops.progress import JsonLine, progress_for
    from settings import get_settings

    console = Console(highlight=False)
    progress = JsonLine(console) if json else progress_for(console)
    if detach:
        from ops.detached import start_detached

        wanted = {
            "--servers-only": servers_only,
            "--with-engine": with_engine,
            "--with-whatsapp": with_whatsapp,
            "--with-debezium": with_debezium,
        }
        options = [name for name, chosen in wanted.items() if chosen]
        start_detached(get_settings(), progress, options=options, timeout_s=timeout)
        return
    from ops.up import Up

    settings = get_settings()
    Up(
        settings.model_copy(update={"publisher": "debezium"}) if with_debezium else settings,
        progress,
        servers_only=servers_only,
        with_engine=with_engine,
        with_whatsapp=with_whatsapp,
    ).run()


def down(
    delete_data: Annotated[
        bool, typer.Option("--delete-data", help="Delete the data folder afterwards.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before deleting.")] = False,
) -> None:
    """Stop what runs in the data folder, in order and without loss; fine when nothing runs."""
    from ops.embedded.folder import find_folder
    from settings import get_settings

    settings = get_settings()
    folder = find_folder(settings.home)
    if folder is None:
        typer.echo(f"Nothing runs in {settings.home.absolute()}: there is no data folder.")
        return
    if delete_data and not yes:
        typer.confirm(f"Delete {folder.root} with all its messages and tables?", abort=True)
    typer.echo(_stop(folder, settings))
    if delete_data:
        from ops.embedded.postgres_place import remove_place

        remove_place(folder.postgres)
        shutil.rmtree(folder.root)
        typer.echo(f"Deleted {folder.root}.")


def status(json: Json = False) -> None:
    """Show what runs and what it has done: state, process, since when, restarts, where it listens, counters.

    Exit code 4 if nothing runs.
    """
    from rich.console import Console

    from ops.counters import counted, lines
    from ops.embedded.folder import find_folder, shortage
    from ops.endpoints import running
    from ops.errors import NotRunning
    from ops.progress import run_as_json, summary
    from ops.supervision.last_run import ended_as_json, how_it_ended
    from ops.supervision.run_file import read_run_file
    from settings import get_settings

    settings = get_settings()
    run, home, folder = running(settings), settings.home.absolute(), find_folder(settings.home)
    if run is None:
        last = read_run_file(folder) if folder is not None else None
        if json:
            typer.echo(ended_as_json(last))
        raise NotRunning(f"Nothing runs in {home}. {how_it_ended(last)}")
    counters = counted(folder.status, run.units) if folder is not None else {}
    trouble = shortage(shutil.disk_usage(home).free, home)
    if json:
        typer.echo(run_as_json(run, home, counters, trouble))
        return
    console = Console(highlight=False)
    if trouble:
        console.print(trouble, style="red", markup=False, soft_wrap=True)
    console.print(_table(run, time.time()))
    if counters:
        console.print("Since they were started:", style="dim")
    for name, values in counters.items():
        for line in lines(name, values):
            console.print(line, markup=False, soft_wrap=True)
    for line in [*summary(run, home)[1:4], run.hint]:
        if line:
            console.print(line, markup=False, soft_wrap=True)


def logs(
    name: Annotated[str, typer.Argument(help="kafka, postgres, relay, worker, sink, supervisor, …")],
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is written from now on.")
    ] = False,
    lines: Annotated[int, typer.Option("--lines", "-n", min=0, help="How many of the last lines.")] = 50,
) -> None:
    """Show the end of a process' log."""
    from ops.embedded.folder import find_folder
    from ops.errors import NotRunning
    from ops.supervision.log_files import follow as follow_log
    from ops.supervision.log_files import last_lines
    from settings import get_settings

    folder = find_folder(get_settings().home)
    known = sorted(file.stem for file in folder.logs.glob("*.log")) if folder is not None else []
    if folder is None or name not in known:
        raise NotRunning(
            f"There is no log of {name!r}" + (f"; there are {', '.join(known)}." if known else " yet.")
        )
    file = folder.logs / f"{name}.log"
    for line in last_lines(file, lines):
        typer.echo(line)
    if follow:
        for text in follow_log(file):
            typer.echo(text, nl=False)


def _stop(folder: DataFolder, settings: Settings) -> str:
    """End the supervisor of a folder, or what a killed one left; returns what was done."""
    from ops.embedded.folder import Lock
    from ops.endpoints import running
    from ops.errors import StartFailed
    from ops.supervision.run_file import clean_up

    run = running(settings)
    if run is None:
        with Lock(folder.lock, f"A start in {folder.root} is just beginning; try again in a moment."):
            ended = clean_up(folder)
        left = f"Ended what a killed run had left: {', '.join(ended)}." if ended else ""
        return left or f"Nothing runs in {folder.root}."
    begun = time.monotonic()
    longest = settings.stop_deadline_s * (len(run.units) + 1)
    _signal(run, signal.SIGTERM)
    while run.supervisor.alive:
        if time.monotonic() - begun > longest:
            raise StartFailed(
                f"The supervisor (process {run.supervisor_pid}) still stops after {longest:.0f} s; `rajada "
                "logs supervisor` tells what it waits for. Kill it and run `rajada down` again if it hangs."
            )
        time.sleep(_POLL_S)
    return f"Stopped in {time.monotonic() - begun:.1f} s."


def _signal(run: RunFile, number: signal.Signals) -> None:
    import contextlib
    import os

    with contextlib.suppress(ProcessLookupError):
        os.kill(run.supervisor_pid, number)


def _table(run: RunFile, now: float) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("NAME", "STATE", "PID", "SINCE", "RESTARTS", "METRICS", "LISTENS"):
        table.add_column(title, justify="right" if title in {"PID", "RESTARTS"} else "left")
    for unit in run.units:
        table.add_row(
            unit.name,
            unit.state,
            str(unit.pid or ""),
            _ago(now - unit.since),
            str(unit.restarts or ""),
            _place(unit.metrics),
            unit.listens or unit.reason.partition("\n")[0],
        )
    return table


def _place(metrics: str) -> str:
    """Where metrics are, in few letters: the column beside needs the room, and here the port says all."""
    return metrics.removeprefix("http://").removesuffix("/metrics").removeprefix("127.0.0.1")


def _ago(seconds: float) -> str:
    """A span in its largest unit: 12 s, 5 min, 3 h, 2 d."""
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return f"{seconds // length:.0f} {unit}"
    return f"{max(0.0, seconds):.0f} s"
