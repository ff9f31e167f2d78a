"""`rajada replay`: publish a stretch of a topic again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ops.commands.selecting import DryRun, Json, Yes
from ops.numbers import several

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from db.runs import StoredRun
    from ops.replay import Counted, Progress, Replay, Selection
    from ops.stretch import Asked, Stretch
    from ops.why.reader import TopicReader
    from settings import Settings

_SKIPPED = {
    "unreadable": "no record of Rajada: dead letters have them",
    "done": "done before",
    "twice": "of an event that is in the stretch already",
    "too large": "above max.message.bytes of the topic",
}


def replay(
    topic: Annotated[str, typer.Argument(help="ai_agent.dispatch_requested, dispatch.outcomes, …")],
    from_offset: Annotated[int | None, typer.Option(min=0, help="The first; with --partition.")] = None,
    to_offset: Annotated[
        int | None, typer.Option(min=0, help="The last, inclusive; default: what is there now.")
    ] = None,
    from_time: Annotated[
        str | None, typer.Option(metavar="TIME", help="Written since: 2h, 3d ago, or an ISO time.")
    ] = None,
    to_time: Annotated[str | None, typer.Option(metavar="TIME", help="Written before.")] = None,
    partition: Annotated[int | None, typer.Option(min=0, help="Only this one.")] = None,
    key: Annotated[
        str | None, typer.Option(help="Only records under it: organization:contact, or :phone.")
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Make new jobs, also of what was answered. Asks first.")
    ] = False,
    rate: Annotated[float, typer.Option(min=0.1, help="At most this many records a second.")] = 5_000.0,
    resume: Annotated[
        int | None, typer.Option("--resume", metavar="RUN", help="Go on with an unfinished replay.")
    ] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Publish a stretch of a topic again under a number of its own. What was done stays done.

    Safe by default: an event that has its outcome changes nothing. With --again customers are answered once
    more. The same command goes on after an interruption. Exit code 12 if the stretch is empty, 5 while
    another replays.
    """
    from db.runs import connect
    from ops.asking import asking
    from ops.endpoints import bootstrap_of, database_of
    from ops.replay import Replay
    from ops.why.reader import TopicReader
    from settings import get_settings
    from streams.lag import Lags

    settings = get_settings()
    name = _name(topic, settings, again)
    if json and not (yes or dry_run or resume):
        raise typer.BadParameter("give --yes or --dry-run with --json")
    if resume is None and (from_offset, from_time) == (None, None):
        raise typer.BadParameter("say from where: --from-time, or --from-offset with --partition")
    bootstrap, url = bootstrap_of(settings), database_of(settings)
    typed = (from_offset, to_offset, from_time, to_time, partition)
    with asking(url):
        connection = connect(url, "replay")
    with connection, TopicReader(bootstrap) as reader:
        topic_id = Lags(bootstrap).topic_id(settings.topic(name))
        work = Replay(url, connection, reader, settings, bootstrap)
        if not dry_run:
            work.lock()
        if resume is not None:
            _run(work, work.of_number(resume, topic_id), rate, resumed=True, json=json)
            return
        asked = _asked(reader, settings.topic(name), *typed)
        found = _stretch(asked, reader, settings.topic(name), key)
        chosen = _selection(name, topic_id, found, typed, key, again)
        stored = None if dry_run else work.begun_before(chosen)
        resumed = stored is not None
        for other in work.unfinished(name, None if stored is None else stored.number):
            how = f"`rajada replay {name} --resume {other}` goes on"
            typer.echo(f"Replay {other} is unfinished: {how}.", err=True)
        if stored is None:
            stored = _planned(work, chosen, found.notes, dry_run=dry_run, yes=yes, json=json)
        if stored is not None:
            _run(work, stored, rate, resumed=resumed, json=json)


def _name(topic: str, settings: Settings, again: bool) -> str:
    """The topic's name without prefix; raises typer.BadParameter when it can't be replayed."""
    from schemas.topic_names import SOURCE
    from streams.replaying import REPLAYABLE, refusal

    name = topic.removeprefix(settings.topic_prefix) if settings.topic_prefix else topic
    why = refusal(name)
    if why is not None:
        raise typer.BadParameter(
            f"{name} is not replayed: {why}. Topics that are: {', '.join(REPLAYABLE)}", param_hint="TOPIC"
        )
    if again and name != SOURCE:
        raise typer.BadParameter(
            f"new jobs are made of {SOURCE} alone; of {name} nothing is done twice", param_hint="--again"
        )
    return name


def _asked(
    reader: TopicReader,
    full_name: str,
    from_offset: int | None,
    to_offset: int | None,
    from_time: str | None,
    to_time: str | None,
    partition: int | None,
) -> Asked:
    from datetime import UTC, datetime

    from ops.moments import moment
    from ops.stretch import Asked

    now = datetime.now(UTC)

    def offsets(text: str | None, option: str) -> dict[int, int] | None:
        if text is None:
            return None
        try:
            at = moment(text, now)
        except ValueError as error:
            raise typer.BadParameter(str(error), param_hint=option) from error
        return reader.since(full_name, int(at.timestamp() * 1000))

    return Asked(
        from_offset, to_offset, offsets(from_time, "--from-time"), offsets(to_time, "--to-time"), partition
    )


def _stretch(asked: Asked, reader: TopicReader, full_name: str, key: str | None) -> Stretch:
    from dataclasses import replace

    from ops.errors import NotFound
    from ops.stretch import WrongStretch, stretch
    from streams.partitioner import partition_of

    log = {partition: reader.bounds(full_name, partition) for partition in reader.partitions(full_name)}
    if key is not None and asked.partition is None:
        asked = replace(asked, partition=partition_of(key.encode(), len(log)))
    try:
        found = stretch(asked, log)
    except WrongStretch as error:
        raise typer.BadParameter(str(error)) from error
    if not found.ranges:
        raise NotFound("\n".join([f"No record of {full_name} lies in that stretch.", *found.notes]))
    return found


def _selection(
    name: str, topic_id: str, found: Stretch, typed: Sequence[object], key: str | None, again: bool
) -> Selection:
    from ops.replay import Selection

    asked = tuple(None if one is None else str(one) for one in typed)
    return Selection(name, topic_id, found.ranges, asked, key, again)


def _planned(
    work: Replay, chosen: Selection, notes: Sequence[str], *, dry_run: bool, yes: bool, json: bool
) -> StoredRun | None:
    """Count, show, ask, and store the run; None when nothing is to be done."""
    import msgspec
    from rich.console import Console

    from ops.bar import counting

    total = sum(below - first for first, below in chosen.ranges.values())
    with counting(total, quiet=json) as watch:
        counted = work.count(chosen, watch)
    if not json:
        _show(Console(highlight=False), chosen, counted, notes)
    if dry_run or not counted.records:
        if json:
            typer.echo(_encoded({**_counts(counted), "notes": notes, "run": None}))
        return None
    if not yes:
        what = several(counted.records, "record")
        if chosen.again:
            made = several(len(counted.events), "event")
            typer.confirm(f"Make new jobs of {made}? Customers are answered once more", abort=True)
        else:
            typer.confirm(f"Publish {what} again?", abort=True)
    return work.begin(msgspec.structs.replace(chosen, records=counted.records))


def _show(console: Console, chosen: Selection, counted: Counted, notes: Sequence[str]) -> None:
    parts = ", ".join(
        f"[{partition}] {first} to {below - 1}" for partition, (first, below) in sorted(chosen.ranges.items())
    )
    console.print(f"{chosen.topic} {parts}", markup=False, soft_wrap=True)
    what = several(counted.records, "record")
    events = f" of {several(len(counted.events), 'event')}" if chosen.again else ""
    console.print(f"{what}{events} to be published again.")
    for why, count in counted.skipped.items():
        if why in _SKIPPED:
            console.print(f"  {count:,} left out: {_SKIPPED[why]}", markup=False)
    for note in notes:
        console.print(note, markup=False, soft_wrap=True, style="yellow")


def _run(work: Replay, stored: StoredRun, rate: float, *, resumed: bool, json: bool) -> None:
    from rich.console import Console

    from ops.bar import INTERRUPTED, counting, stopping
    from ops.replay import progress_of, selection_of

    console, total = Console(highlight=False, stderr=json), selection_of(stored).records
    if resumed:
        sent = progress_of(stored).sent
        console.print(f"Goes on with replay {stored.number}: {sent:,} of {total:,} are sent.", markup=False)
    with stopping() as stop, counting(total, quiet=json) as watch:
        progress, complete = work.work(stored, rate, stop, watch, resumed=resumed)
    if json:
        typer.echo(_encoded(_result(stored, progress, complete)))
    else:
        console.print(f"Published {several(progress.sent, 'record')} again as run {stored.number}.")
        if not complete:
            console.print("Stopped; the same command goes on.")
    if not complete:
        raise typer.Exit(INTERRUPTED)


def _counts(counted: Counted) -> dict[str, object]:
    return {
        "records": counted.records,
        "events": len(counted.events) or None,
        "skipped": {why: count for why, count in counted.skipped.items() if why != "another key"},
    }


def _result(stored: StoredRun, progress: Progress, complete: bool) -> dict[str, object]:
    return {
        "run": stored.number,
        "sent": progress.sent,
        "skipped": {why: count for why, count in progress.skipped.items() if why != "another key"},
        "complete": complete,
    }


def _encoded(told: object) -> str:
    import msgspec

    return msgspec.json.encode(told).decode()
