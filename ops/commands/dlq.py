"""`rajada dlq`: dead letters. Here what looks at them; what changes something is in `dlq_acts`."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from ops.commands import dlq_acts, dlq_import
from ops.commands.selecting import (
    Closed,
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
    chosen,
)
from ops.numbers import several

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rich.console import Console

    from db.closed_letters import Closed as WasClosed
    from ops.dlq.desk import Desk
    from ops.dlq.groups import Groups
    from ops.dlq.selection import Filter
    from streams.letters import Letter

app = typer.Typer(help="Dead letters: look at them, requeue, drop, export, import.", no_args_is_help=True)
_SEARCHED = 20
"""Letters that `show` shows of an id."""


@app.command("ls")
def ls(
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
    by: Annotated[
        str, typer.Option(help="What to count by: reason, kind, organization, stage, day, origin.")
    ] = "reason,kind",
    list_: Annotated[bool, typer.Option("--list", help="One line a letter instead of counts.")] = False,
    limit: Annotated[int, typer.Option(min=1, help="With --list: the newest so many.")] = 50,
    json: Json = False,
) -> None:
    """Count the open dead letters in groups, or list them.

    Without Postgres it is not known which are open; then all are shown, with a note.
    """
    from rich.console import Console

    from ops.dlq.desk import Desk
    from ops.dlq.groups import Groups, fields_of
    from settings import get_settings

    try:
        groups = Groups(by=fields_of([by]))
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--by") from error
    which = chosen(
        places, reason=reason, kind=kind, stage=stage, organization=organization, id_=id_, header=header,
        since=since, until=until, parking=parking, closed=closed,
    )  # fmt: skip
    with Desk(get_settings(), which.topic, rows_needed=False) as desk:
        newest, states = _count(desk, which, groups, limit if list_ else 0)
        others = [] if parking else _unfinished(desk)
    console = Console(highlight=False)
    if json:
        typer.echo(_listed_as_json(groups, newest, states, desk.note, others))
    else:
        _tell(console, groups, newest, states, which)
        for line in [*others, *([desk.note] if desk.note else [])]:
            console.print(line, markup=False, soft_wrap=True, style="yellow")


@app.command("show")
def show(
    which: Annotated[str, typer.Argument(metavar="PLACE|ID", help="dead/3/17, or of an event or a job.")],
    unmasked: Annotated[
        bool, typer.Option("--unmasked", help="Show customers' data too, and unreadable bytes.")
    ] = False,
    json: Json = False,
) -> None:
    """Show a dead letter: what it is, the way it went, what may be done; personal data is masked.

    Exit code 12 if there is no such letter.
    """
    from rich.console import Console

    from ops.dlq.desk import Desk
    from ops.dlq.show import as_json, letter_page
    from ops.errors import NotFound
    from settings import get_settings

    settings, console, found = get_settings(), Console(highlight=False), []
    for selection in _meant(which):
        with Desk(settings, selection.topic, rows_needed=False) as desk:
            for page in desk.pages(selection, desk.ranges(selection)):
                found += [(one, _state(page.closed, one)) for one in page.letters]
            note = desk.note
    if not found:
        raise NotFound(
            f"There is no dead letter {which}. `rajada dlq ls --closed --list` shows those there are."
        )
    if json:
        typer.echo(_encoded([as_json(*one, unmasked=unmasked) for one in found[-_SEARCHED:]]))
        return
    for letter, closed in found[-_SEARCHED:]:
        console.print(letter_page(letter, closed, unmasked=unmasked))
    if note:
        console.print(note, style="yellow", soft_wrap=True)


@app.command("export")
def export(
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
    to: Annotated[str, typer.Option("--to", metavar="FILE", help="- is standard output.")] = "-",
) -> None:
    """Write dead letters as JSON lines, byte for byte; `import` reads them. They hold customers' data."""
    from ops.bar import INTERRUPTED, counting, stopping
    from ops.dlq.carriage import export as run
    from ops.dlq.desk import Desk
    from settings import get_settings

    which = chosen(
        places, reason=reason, kind=kind, stage=stage, organization=organization, id_=id_, header=header,
        since=since, until=until, parking=parking, closed=closed,
    )  # fmt: skip
    with Desk(get_settings(), which.topic, rows_needed=False) as desk, _opened(to) as out:
        ranges = desk.ranges(which)
        with stopping() as stop, counting(None, quiet=to == "-") as watch:
            written, complete = run(desk, which, ranges, out, stop, watch)
    ended = "" if complete else "; stopped before the end"
    typer.echo(f"{several(written, 'letter')} written{ended}.", err=True)
    if desk.note:
        typer.echo(desk.note, err=True)
    if not complete:
        raise typer.Exit(INTERRUPTED)


app.command("requeue")(dlq_acts.requeue)
app.command("drop")(dlq_acts.drop)
app.command("import")(dlq_import.bring_in)


def _count(desk: Desk, which: Filter, groups: Groups, keep: int) -> tuple[list[Letter], dict[str, WasClosed]]:
    """Count everything; keeps the newest so many letters, and what was done with them."""
    import heapq

    from ops.bar import counting

    ranges = desk.ranges(which)
    newest: list[tuple[int, str, Letter]] = []
    states: dict[str, WasClosed] = {}
    looked_at = 0
    with counting(sum(end - start for start, end in ranges.values()), quiet=False) as watch:
        for page in desk.pages(which, ranges):
            for letter in page.letters:
                state = _state(page.closed, letter)
                groups.add(letter, closed=state is not None)
                if keep:
                    put = heapq.heappushpop if len(newest) >= keep else heapq.heappush
                    put(newest, (letter.at_ms, str(letter.place), letter))
                    if state is not None:
                        states[str(letter.place)] = state
            looked_at += page.looked_at
            watch(looked_at)
    return [letter for *_, letter in sorted(newest, reverse=True)], states


def _tell(
    console: Console, groups: Groups, newest: list[Letter], states: dict[str, WasClosed], which: Filter
) -> None:
    import time

    from ops.dlq.selection import short
    from ops.dlq.show import groups_table, letters_table

    what, one = ("letters", "letter") if which.closed else ("open letters", "open letter")
    where = "in the parking lot" if short(which.topic) == "parking" else "among the dead"
    if not groups.letters:
        console.print(f"No {what} {where} ({which.words()}).", markup=False)
    elif newest:
        console.print(letters_table(newest, states))
        if groups.letters > len(newest):
            console.print(f"The newest {len(newest):,} of {groups.letters:,} {what}.")
    else:
        console.print(groups_table(groups, time.time_ns() // 1_000_000, closed=which.closed))
        console.print(f"{several(groups.letters, one)} {where}.")


def _unfinished(desk: Desk) -> list[str]:
    """Requeues that somebody should go on with."""
    if desk.note is not None:
        return []
    from ops.dlq.requeue import progress_of, selection_of, unfinished

    return [
        f"Requeue {one.number} of {one.started_by or 'somebody'} ({selection_of(one).chosen.words()}) is "
        f"unfinished: {progress_of(one).done:,} of {selection_of(one).letters:,}. "
        f"`rajada dlq requeue --resume {one.number}` goes on."
        for one in unfinished(desk)
    ]


def _meant(text: str) -> list[Filter]:
    """Where to look for what was typed: at a place, or for an id in both topics."""
    from ops.dlq.selection import Filter
    from schemas.topic_names import DEAD, PARKING
    from streams.identifiers import canonical_row_id
    from streams.letters import place_of

    place, id_ = place_of(text), canonical_row_id(text.strip())
    if place is not None:
        return [Filter(topic=place.topic, places=((place.partition, place.offset),), closed=True)]
    if id_ is None:
        raise typer.BadParameter(f"{text!r} is neither a place (dead/3/17) nor a UUID", param_hint="PLACE|ID")
    return [Filter(topic=topic, ids=(id_,), closed=True) for topic in (DEAD, PARKING)]


def _state(closed: dict[tuple[int, int], WasClosed], letter: Letter) -> WasClosed | None:
    return closed.get((letter.place.partition, letter.place.offset))


def _opened(to: str) -> AbstractContextManager[IO[bytes]]:
    """The file, which nobody else may read, since it holds what customers wrote."""
    import os

    if to == "-":
        return nullcontext(sys.stdout.buffer)
    try:
        return os.fdopen(os.open(Path(to), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb")
    except OSError as error:
        raise typer.BadParameter(f"{to} can't be written ({error.strerror})", param_hint="--to") from error


def _listed_as_json(
    groups: Groups, newest: list[Letter], states: dict[str, WasClosed], note: str | None, others: list[str]
) -> str:
    from ops.dlq.show import as_json, groups_as_json

    told: dict[str, object] = {
        "letters": groups.letters,
        "groups": groups_as_json(groups),
        "note": note,
        "unfinished": others,
    }
    if newest:
        told["newest"] = [as_json(one, states.get(str(one.place)), unmasked=False) for one in newest]
    return _encoded(told)


def _encoded(told: object) -> str:
    import msgspec

    return msgspec.json.encode(told).decode()
