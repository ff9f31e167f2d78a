"""`rajada produce`: write events from JSON lines."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Literal

import typer

from ops.commands.selecting import Json
from ops.numbers import several

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.console import Console

    from ops.event_targets import Target
    from ops.produce import Produced
    from settings import Settings


def produce(
    file: Annotated[str, typer.Argument(help="JSON lines, an event each; - reads standard input.")],
    to: Annotated[
        str,
        typer.Option(help="table: rows in event_log, which CDC publishes; topic: records, past Postgres."),
    ] = "table",
    rate: Annotated[
        float | None, typer.Option(min=0.1, help="At most this many events a second; not with --atomic.")
    ] = None,
    atomic: Annotated[
        bool | None,
        typer.Option(
            "--atomic/--no-atomic",
            help="All or nothing, in one transaction. Default for the table without --rate.",
            show_default=False,
        ),
    ] = None,
    from_line: Annotated[int, typer.Option(min=1, help="Go on at this line.")] = 1,
    any_payload: Annotated[
        bool, typer.Option("--any-payload", help="Take payloads outside the contract too.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Check the lines, write nothing.")] = False,
    json: Json = False,
) -> None:
    """Write events from FILE, each line an object with the columns of event_log.

    organization_id and payload are needed; id is made when absent and printed as LINE<TAB>ID; event_type
    defaults to ai_agent.dispatch_requested. Exit code 9 if lines are wrong, 7 if the target failed.
    """
    from rich.console import Console

    from ops.produce import Pace, batches
    from ops.produce import produce as run
    from settings import get_settings

    if to not in ("table", "topic"):
        raise typer.BadParameter("must be table or topic", param_hint="--to")
    if atomic and rate is not None:
        raise typer.BadParameter(
            "one transaction makes all events visible at once, so --rate has no meaning with --atomic",
            param_hint="--rate",
        )
    if atomic is None:
        atomic = to == "table" and rate is None
    where: Literal["table", "topic"] = "table" if to == "table" else "topic"
    errors = Console(stderr=True, highlight=False)
    with _opened(file) as source:
        target = None if dry_run else _target(where, get_settings(), atomic)
        pace = Pace(rate)
        there: list[int] = []
        lines = batches(
            source, size=pace.batch_size, from_line=from_line, pipe=file == "-", at_end=there.append
        )
        with _Bar(errors, file, quiet=json) as bar:
            produced = run(lines, target, atomic=atomic, pace=pace, any_payload=any_payload, watch=bar.watch)
    if from_line > 1 and there and from_line > there[0]:
        hint = f"{file} has {several(there[0], 'line')}: --from-line {from_line} is past its end."
        errors.print(hint, markup=False, soft_wrap=True)
    if json:
        typer.echo(_as_json(produced))
    else:
        _tell(produced, errors, file, where)
    if not produced.complete:
        raise typer.Exit(produced.exit_code)


def _opened(file: str) -> IO[bytes]:
    if file == "-":
        return sys.stdin.buffer
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} can't be read ({error.strerror})", param_hint="FILE") from error


def _target(to: Literal["table", "topic"], settings: Settings, atomic: bool) -> Target:
    from ops.endpoints import bootstrap_of, database_of
    from ops.event_targets import Table, Topic

    if to == "table":
        return Table(database_of(settings), atomic=atomic)
    return Topic(bootstrap_of(settings), settings, atomic=atomic)


class _Bar:
    """A progress bar on a terminal: by bytes for a file, by count for a pipe."""

    def __init__(self, console: Console, file: str, *, quiet: bool) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        size = Path(file).stat().st_size if file != "-" and Path(file).is_file() else None
        self._progress = Progress(
            TextColumn("{task.fields[count]:,} events"),
            BarColumn(),
            TextColumn("{task.fields[rate]:,.0f}/s"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or not console.is_terminal,
        )
        self._task = self._progress.add_task("produce", total=size, count=0, rate=0.0)
        self.watch: Callable[[Produced], None] = self._watch

    def _watch(self, produced: Produced) -> None:
        spent = self._progress.tasks[0].elapsed or 0.0
        self._progress.update(
            self._task,
            completed=produced.bytes,
            count=produced.lines,
            rate=produced.lines / spent if spent else 0.0,
        )

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


def _tell(produced: Produced, errors: Console, file: str, to: str) -> None:
    """The ids that were made on stdout, everything else on stderr."""
    for line, event_id in produced.generated.items():
        typer.echo(f"{line}\t{event_id}")

    def say(text: str) -> None:
        errors.print(text, markup=False, soft_wrap=True)

    for error in produced.errors:
        say(f"{file}: {error}")
    if produced.refused > len({error.line for error in produced.errors}):
        say(f"{several(produced.refused, 'line is', 'lines are')} wrong; the first errors are shown.")
    say(_summary(produced))
    if produced.stopped:
        say(f"Ended early: {produced.stopped}")
    if produced.go_on_at is not None:
        option = " --no-atomic" if to == "table" else " --to topic"
        say(f"Go on with: rajada produce {file}{option} --from-line {produced.go_on_at}")
        if to == "topic":
            say("A few lines from there on may have arrived; those with an id of their own do no harm twice.")


def _summary(produced: Produced) -> str:
    found = f"{several(produced.lines, 'line')}, {produced.refused:,} wrong"
    if produced.target.startswith("nothing"):
        return f"Checked {found}. Nothing was written (--dry-run)."
    if produced.atomic and (produced.refused or produced.stopped):
        return f"{found}. Nothing was written: all or nothing (--no-atomic writes the good ones)."
    written = f"{several(produced.written, 'event')} written to {produced.target}"
    already = f", {several(produced.already, 'was', 'were')} there already" if produced.already else ""
    return f"{found}; {written}{already} in {produced.seconds:.1f} s."


def _as_json(produced: Produced) -> str:
    import msgspec

    told = {
        "target": produced.target,
        "atomic": produced.atomic,
        "lines": produced.lines,
        "refused": produced.refused,
        "written": produced.written,
        "already": produced.already,
        "errors": [{"line": one.line, "field": one.field, "what": one.what} for one in produced.errors],
        "generated": {str(line): event_id for line, event_id in produced.generated.items()},
        "seconds": round(produced.seconds, 3),
        "stopped": produced.stopped,
        "go_on_at": produced.go_on_at,
        "complete": produced.complete,
    }
    return msgspec.json.encode(told).decode()
