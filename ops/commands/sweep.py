"""`rajada sweep`: publish again what CDC lost, now or for older times."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from rich.console import Console
    from rich.table import Table

    from db.sweep_claims import Conditions, Waiting
    from ops.backfill import HandSweep, Result

_ROWS = 20


def sweep(
    now: Annotated[
        bool, typer.Option("--now", help="Also events that were published again and whose backoff runs.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what it would do; publish nothing.")
    ] = False,
    backfill: Annotated[
        str | None,
        typer.Option(metavar="SINCE", help="Also rows from before the installation: 2h, 3d, or an ISO time."),
    ] = None,
    rate: Annotated[float, typer.Option(min=0.1, help="With --backfill: events a second at most.")] = 200.0,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask before a back-fill.")] = False,
    json: Json = False,
) -> None:
    """Publish again the events that stay pending, as a worker does every minute.

    Nothing is published while worker or sink are more than RAJADA_SWEEP_MAX_LAG_S behind (exit code 3); a
    back-fill waits for them. What was published is remembered: run it again to go on after Ctrl-C.
    """
    from datetime import UTC, datetime

    from rich.console import Console

    from ops.backfill import HandSweep, total
    from ops.endpoints import bootstrap_of, database_of
    from ops.moments import moment
    from settings import get_settings
    from streams.sweeping import conditions

    since = None
    if backfill is not None:
        try:
            since = moment(backfill, datetime.now(UTC))
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint="--backfill") from error
        if json and not (yes or dry_run):
            raise typer.BadParameter("give --yes or --dry-run with --json", param_hint="--backfill")
    settings = get_settings()
    which = conditions(settings, since=since, at_once=now)
    stop = threading.Event()
    by_hand = HandSweep(database_of(settings), bootstrap_of(settings), settings, stop)
    console = Console(highlight=False)
    waiting = by_hand.waiting(which)
    if not json:
        _show(waiting, since, console)
    if dry_run or not waiting:
        held = by_hand.held() if waiting else None
        if json:
            typer.echo(_as_json(waiting, None, held))
        elif held is not None:
            console.print(f"Nothing would be published now: {held}.", markup=False, soft_wrap=True)
        return
    if since is None:
        result = by_hand.once(which)
    else:
        if not yes:
            _ask(waiting)
        result = _with_progress(by_hand, which, rate, total(waiting), stop, quiet=json)
    if json:
        typer.echo(_as_json(waiting, result, result.held))
    _finish(result, json, console)


def _ask(waiting: Sequence[Waiting]) -> None:
    from ops.backfill import total

    typer.confirm(
        f"Publish {total(waiting):,} events again? Whoever nobody has answered since gets an answer now, "
        "however old the message (EVENT_MAX_AGE limits that)",
        abort=True,
    )


def _show(waiting: Sequence[Waiting], since: datetime | None, console: Console) -> None:
    from ops.backfill import total

    when = "since the installation" if since is None else f"since {since.astimezone():%Y-%m-%d %H:%M:%S%z}"
    if not waiting:
        console.print(f"Nothing is stuck {when}.")
        return
    console.print(f"{total(waiting):,} events are stuck {when}:", markup=False)
    console.print(_table(waiting))


def _table(waiting: Sequence[Waiting]) -> Table:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0))
    table.add_column("ORGANIZATION", no_wrap=True)
    table.add_column("TYPE")
    for title in ("< 1 H", "< 1 D", "< 7 D", "OLDER", "TRIED BEFORE"):
        table.add_column(title, justify="right")
    table.add_column("OLDEST", no_wrap=True)
    for one in waiting[:_ROWS]:
        numbers = [f"{n:,}" if n else "" for n in (one.hour, one.day, one.week, one.older, one.swept)]
        table.add_row(
            one.organization_id, one.event_type, *numbers, f"{one.oldest.astimezone():%Y-%m-%d %H:%M:%S}"
        )
    if len(waiting) > _ROWS:
        rest = waiting[_ROWS:]
        table.add_row(f"and {len(rest):,} more", f"{sum(one.events for one in rest):,} events")
    return table


def _with_progress(
    by_hand: HandSweep,
    which: Conditions,
    rate: float,
    events: int,
    stop: threading.Event,
    *,
    quiet: bool,
) -> Result:
    """The back-fill with a bar; Ctrl-C ends it after the page that is under way."""
    import signal

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    errors = Console(stderr=True, highlight=False)
    bar = Progress(
        MofNCompleteColumn(),
        BarColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}", markup=False),
        console=errors,
        transient=True,
        disable=quiet or not errors.is_terminal,
    )
    before = {
        number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        with bar:
            task = bar.add_task("", total=events)

            def watch(done: Result) -> None:
                said = f"waits: {done.held}" if done.held else "waits: another sweeps" if done.busy else ""
                bar.update(task, completed=done.published, description=said)

            return by_hand.until_done(which, rate, watch)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _finish(result: Result, json: bool, console: Console) -> None:
    """What was done, and the exit code."""
    from ops.backfill import INTERRUPTED, SweepBusy, SweepHeld

    if result.published and not json:
        console.print(f"Published {result.published:,} events again.")
    if result.stopped:
        console.print("Stopped; the same command goes on.")
        raise typer.Exit(INTERRUPTED)
    if result.held is not None:
        raise SweepHeld(f"Nothing {'more ' if result.published else ''}is published now: {result.held}.")
    if result.busy:
        raise SweepBusy("Another process sweeps just now; try again in a moment.")


def _as_json(waiting: Sequence[Waiting], result: Result | None, held: str | None) -> str:
    import msgspec

    told = {
        "waiting": [
            {
                "organization_id": one.organization_id,
                "event_type": one.event_type,
                "events": one.events,
                "age": {"1h": one.hour, "1d": one.day, "7d": one.week, "older": one.older},
                "oldest": one.oldest.isoformat(),
                "tried_before": one.swept,
            }
            for one in waiting
        ],
        "published": result.published if result is not None else 0,
        "held": held,
        "busy": result.busy if result is not None else False,
    }
    return msgspec.json.encode(told).decode()
