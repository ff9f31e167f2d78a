"""How the commands about dead letters are told which letters are meant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from ops.dlq.selection import Filter

Places = Annotated[
    list[str] | None, typer.Argument(metavar="[PLACE]...", help="dead/3/17: partition 3, offset 17.")
]
Reasons = Annotated[list[str] | None, typer.Option("--reason", help="Why it died; * is a wild card.")]
Kinds = Annotated[
    list[str] | None,
    typer.Option("--kind", help="Event type, job kind, outcome, command or unreadable; * is a wild card."),
]
Stages = Annotated[list[str] | None, typer.Option("--stage", help="collect, decide, execute, sink, …")]
Organizations = Annotated[list[str] | None, typer.Option("--organization", metavar="ID", help="Whose.")]
Ids = Annotated[list[str] | None, typer.Option("--id", metavar="ID", help="Of an event or a job.")]
Headers = Annotated[
    list[str] | None, typer.Option("--header", metavar="NAME=VALUE", help="* is a wild card of the value.")
]
Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help="Died since: 2h, 3d ago, or an ISO time.")
]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Died before.")]
Parking = Annotated[
    bool, typer.Option("--parking", help="The parking lot, where lies what died after three replays.")
]
Closed = Annotated[bool, typer.Option("--closed", help="Also what was requeued, parked or dropped.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what it would do; change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")]


def chosen(
    places: list[str] | None = None,
    *,
    reason: list[str] | None,
    kind: list[str] | None,
    stage: list[str] | None,
    organization: list[str] | None,
    id_: list[str] | None,
    header: list[str] | None,
    since: str | None,
    until: str | None,
    parking: bool,
    closed: bool = False,
) -> Filter:
    """The selection that the options name; raises typer.BadParameter for what can't be meant."""
    from ops.dlq.selection import Filter, WrongSelection, header_of, places_of
    from schemas.topic_names import DEAD, PARKING

    try:
        topic, named = places_of(places or ())
        if parking and named and topic == DEAD:
            raise WrongSelection("the places are among the dead letters, not in the parking lot")
        return Filter(
            topic=PARKING if parking else topic,
            places=named,
            reasons=tuple(reason or ()),
            stages=tuple(stage or ()),
            kinds=tuple(kind or ()),
            organizations=tuple(one.lower() for one in organization or ()),
            ids=tuple(one.lower() for one in id_ or ()),
            headers=tuple(header_of(one) for one in header or ()),
            since_ms=_moment(since, "--since"),
            until_ms=_moment(until, "--until"),
            closed=closed,
        )
    except WrongSelection as error:
        raise typer.BadParameter(str(error)) from error


def _moment(text: str | None, option: str) -> int | None:
    from datetime import UTC, datetime

    from ops.moments import moment

    if text is None:
        return None
    try:
        return int(moment(text, datetime.now(UTC)).timestamp() * 1000)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def narrow(filter_: Filter, everything: bool) -> None:
    """Refuse a selection that names nothing, unless everything is what is wanted."""
    if filter_.is_everything and not everything:
        raise typer.BadParameter("say which letters (--reason, --since, a place, …), or --all")
