"""`rajada dlq requeue` and `drop`: what settles dead letters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import (
    Closed,
    DryRun,
    Headers,
    Ids,
    Json,
    Kinds,
    Organizations,
    Parking,
    Places,
    Reasons,
    Since,
    Stages,
    Until,
    Yes,
    chosen,
    narrow,
)
from ops.numbers import several

if TYPE_CHECKING:
    from rich.console import Console

    from db.runs import StoredRun
    from ops.dlq.desk import Desk
    from ops.dlq.plan import Plan
    from ops.dlq.requeue import Result, Selection
    from ops.dlq.selection import Filter
    from settings import Settings

All = Annotated[bool, typer.Option("--all", help="Every open letter; with --closed those, too.")]
Because = Annotated[str | None, typer.Option("--because", metavar="TEXT", help="Why, for the audit.")]


def requeue(
    places: Places = None,
    reason: Reasons = None,
    kind: Kinds = None,
    stage: Stages = None,
    organization: Organizations = None,
    id_: Ids = None,
    header: Headers = None,
    since: Since = None,
    until: Until = None,
    parking: Parking = False,
    closed: Closed = False,
    all_: All = False,
    because: Because = None,
    rate: Annotated[float, typer.Option(min=0.1, help="At most this many letters a second.")] = 5_000.0,
    resume: Annotated[
        int | None, typer.Option("--resume", metavar="RUN", help="Go on with an unfinished requeue.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Send dead letters again: events to their topic, jobs as orders to begin anew under the same id.

    What was done meanwhile stays done. After three replays a letter is parked instead. The same command goes
    on after an interruption. Exit code 10 if letters stay that can't be requeued, 5 while another requeues.
    """
    from ops.dlq.desk import Desk
    from ops.dlq.requeue import Selection, begun_before, of_number
    from settings import get_settings

    which = chosen(
        places, reason=reason, kind=kind, stage=stage, organization=organization, id_=id_, header=header,
        since=since, until=until, parking=parking, closed=closed,
    )  # fmt: skip
    if resume is None:
        narrow(which, all_)
    elif not which.is_everything:
        raise typer.BadParameter("a run that goes on knows its letters", param_hint="--resume")
    if json and not (yes or dry_run or resume):
        raise typer.BadParameter("give --yes or --dry-run with --json")
    settings = get_settings()
    with Desk(settings, which.topic, rows_needed=True) as desk:
        asked = Selection(which, desk.topic_id, {}, (since, until), because)
        if not dry_run:
            desk.lock()
        stored = of_number(desk, resume) if resume is not None else begun_before(desk, asked)
        if stored is None or dry_run:
            stored = _planned(desk, asked, dry_run=dry_run, yes=yes, json=json)
            resumed = False
        else:
            resumed = True
        if stored is not None:
            _run(desk, stored, settings, rate, resumed=resumed, json=json)


def drop(
    places: Places = None,
    reason: Reasons = None,
    kind: Kinds = None,
    stage: Stages = None,
    organization: Organizations = None,
    id_: Ids = None,
    header: Headers = None,
    since: Since = None,
    until: Until = None,
    parking: Parking = False,
    all_: All = False,
    because: Because = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Give dead letters up, with a reason that is kept: nobody will be answered for them.

    The letters stay in Kafka; `requeue --closed` still finds them. Exit code 5 while another requeues.
    """
    from rich.console import Console

    from ops.bar import INTERRUPTED, counting, stopping
    from ops.dlq.desk import Desk
    from ops.dlq.drop import drop as run
    from ops.dlq.plan import plan
    from settings import get_settings

    which = chosen(
        places, reason=reason, kind=kind, stage=stage, organization=organization, id_=id_, header=header,
        since=since, until=until, parking=parking,
    )  # fmt: skip
    narrow(which, all_)
    if not dry_run and not (because or "").strip():
        raise typer.BadParameter("say why; it is kept", param_hint="--because")
    if json and not (yes or dry_run):
        raise typer.BadParameter("give --yes or --dry-run with --json")
    console = Console(highlight=False, stderr=json)
    with Desk(get_settings(), which.topic, rows_needed=True) as desk:
        if not dry_run:
            desk.lock()
        ranges = desk.ranges(which)
        made = plan(desk, which, ranges)
        dropped, complete = 0, True
        if not json:
            _show(console, made, which)
        if made.letters and not dry_run:
            if not yes:
                typer.confirm(
                    f"Drop {several(made.letters, 'letter')}? Nobody will be answered for them", abort=True
                )
            with stopping() as stop, counting(made.letters, quiet=json) as watch:
                dropped, complete = run(desk, which, ranges, because or "", stop, watch)
    if json:
        typer.echo(_encoded({"letters": made.letters, "dropped": dropped, "complete": complete}))
    elif dropped or not complete:
        ended = "" if complete else "; stopped, the same command goes on"
        console.print(f"Dropped {several(dropped, 'letter')}{ended}.")
    if not complete:
        raise typer.Exit(INTERRUPTED)


def _planned(desk: Desk, asked: Selection, *, dry_run: bool, yes: bool, json: bool) -> StoredRun | None:
    """Count, show, ask, and store the run; None when nothing is to be done."""
    import msgspec
    from rich.console import Console

    from ops.bar import counting
    from ops.dlq.plan import plan
    from ops.dlq.requeue import begin

    ranges = desk.ranges(asked.chosen)
    with counting(sum(end - start for start, end in ranges.values()), quiet=json) as watch:
        made = plan(desk, asked.chosen, ranges, watch)
    console = Console(highlight=False)
    if not json:
        _show(console, made, asked.chosen)
        for line in made.lines():
            console.print(f"  {line}", markup=False, soft_wrap=True)
    movable = made.goes.total()
    if dry_run or not movable:
        if json:
            typer.echo(
                _encoded({"letters": made.letters, "goes": made.goes, "stays": made.stays, "run": None})
            )
        if not dry_run and made.letters:
            raise typer.Exit(_NOT_ALL)
        return None
    if not yes:
        typer.confirm(
            f"Requeue {several(movable, 'letter')}? What is answered again can't be undone", abort=True
        )
    return begin(desk, msgspec.structs.replace(asked, ranges=ranges, letters=made.letters))


def _run(
    desk: Desk, stored: StoredRun, settings: Settings, rate: float, *, resumed: bool, json: bool
) -> None:
    from rich.console import Console

    from ops.bar import INTERRUPTED, counting, stopping
    from ops.dlq.requeue import Requeue, progress_of, selection_of
    from ops.sender import Sender

    console, total = Console(highlight=False, stderr=json), selection_of(stored).letters
    if resumed:
        done = progress_of(stored).done
        console.print(f"Goes on with requeue {stored.number}: {done:,} of {total:,} are done.", markup=False)
    sender = Sender(desk.bootstrap, settings)
    with stopping() as stop, counting(total, quiet=json) as watch:
        run = Requeue(desk, stored, sender, rate, stop, resumed=resumed)
        result = run.work(lambda progress: watch(progress.done))
    if json:
        typer.echo(_encoded(_result_as_json(result)))
    else:
        _tell(console, result)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)
    if result.progress.stayed:
        raise typer.Exit(_NOT_ALL)


def _tell(console: Console, result: Result) -> None:
    progress = result.progress
    parked = f", {progress.parked:,} parked" if progress.parked else ""
    done = f"{several(progress.requeued, 'letter')}{parked}"
    console.print(f"Requeued {done} as run {result.run} in {result.seconds:.1f} s.", markup=False)
    for why, count in result.reasons.most_common(5):
        places = [place for place, told in result.stays if told == why]
        shown = ", ".join(places[:3]) + (" …" if count > len(places[:3]) else "")
        console.print(
            f"{several(count, 'letter stays', 'letters stay')}: {why} ({shown})",
            markup=False,
            soft_wrap=True,
            style="yellow",
        )
    if result.interrupted:
        console.print("Stopped; the same command goes on.")


def _show(console: Console, made: Plan, which: Filter) -> None:
    import time

    from ops.dlq.show import groups_table

    if not made.letters:
        console.print(f"No {'' if which.closed else 'open '}letters ({which.words()}).", markup=False)
        return
    console.print(groups_table(made.groups, time.time_ns() // 1_000_000, closed=which.closed))


def _result_as_json(result: Result) -> dict[str, object]:
    return {
        "run": result.run,
        "requeued": result.progress.requeued,
        "parked": result.progress.parked,
        "stayed": result.progress.stayed,
        "stays": result.reasons,
        "seconds": round(result.seconds, 3),
        "complete": not result.interrupted,
    }


_NOT_ALL = 10


def _encoded(told: object) -> str:
    import msgspec

    return msgspec.json.encode(told).decode()
