"""`rajada dlq import`: exported letters in again."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import DryRun, Json
from ops.numbers import several

if TYPE_CHECKING:
    from ops.dlq.carriage import Checked, Imported
    from settings import Settings


def bring_in(
    file: Annotated[str, typer.Argument(metavar="FILE", help="From `export`; - reads standard input.")],
    dry_run: DryRun = False,
    json: Json = False,
) -> None:
    """Bring exported letters in again, byte for byte; those that are there are left out.

    Nothing is written when a line is wrong (exit code 9). `requeue` sends them on their way.
    """
    from ops.bar import INTERRUPTED
    from ops.dlq.carriage import check
    from ops.errors import WRONG_LINES
    from settings import get_settings

    with _spooled(file) as source:
        checked = check(source)
        done = None
        if not checked.wrong:
            done = _imported(source, checked, get_settings(), dry_run=dry_run, json=json)
    if json:
        typer.echo(_import_as_json(checked, done))
    else:
        for number, what in checked.errors:
            typer.echo(f"{file}: line {number}: {what}", err=True)
        typer.echo(_import_in_words(checked, done, dry_run=dry_run), err=True)
    if checked.wrong:
        raise typer.Exit(WRONG_LINES)
    if done is not None and done.interrupted:
        raise typer.Exit(INTERRUPTED)


def _imported(
    source: IO[bytes], checked: Checked, settings: Settings, *, dry_run: bool, json: bool
) -> Imported:
    from ops.bar import counting, stopping
    from ops.dlq.carriage import Imported, bring_in, there_already
    from ops.dlq.desk import Desk
    from ops.sender import Sender

    total = Imported()
    for topic in sorted(checked.topics):
        with Desk(settings, topic, rows_needed=False) as desk:
            already = there_already(desk, checked)
            if dry_run:
                total.already += len(already)
                continue
            source.seek(0)
            with stopping() as stop, counting(checked.lines, quiet=json) as watch:
                sender = Sender(desk.bootstrap, settings)
                done = bring_in(desk, source, already, sender, stop, lambda now: watch(now.written))
            total.written += done.written
            total.already += done.already
            total.interrupted |= done.interrupted
    return total


def _spooled(file: str) -> IO[bytes]:
    """The file, so that it can be read twice."""
    import shutil

    if file == "-":
        spool = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
        shutil.copyfileobj(sys.stdin.buffer, spool)
        spool.seek(0)
        return spool
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise typer.BadParameter(f"{file} can't be read ({error.strerror})", param_hint="FILE") from error


def _import_in_words(checked: Checked, done: Imported | None, *, dry_run: bool) -> str:
    if done is None:
        return f"{several(checked.lines, 'line')}, {checked.wrong:,} wrong. Nothing was written."
    there = f", {several(done.already, 'is', 'are')} there already" if done.already else ""
    if dry_run:
        return f"{several(checked.lines, 'line')}, none wrong{there}. Nothing was written (--dry-run)."
    stopped = "; stopped, the same command goes on" if done.interrupted else ""
    return f"{several(checked.lines, 'line')}; {several(done.written, 'letter')} written{there}{stopped}."


def _import_as_json(checked: Checked, done: Imported | None) -> str:
    return _encoded(
        {
            "lines": checked.lines,
            "wrong": checked.wrong,
            "errors": [{"line": number, "what": what} for number, what in checked.errors],
            "written": done.written if done else 0,
            "already": done.already if done else 0,
            "complete": done is not None and not done.interrupted,
        }
    )


def _encoded(told: object) -> str:
    import msgspec

    return msgspec.json.encode(told).decode()
