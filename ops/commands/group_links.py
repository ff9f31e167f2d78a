"""`rajada group-links`: what became of group links; held ones are sent or closed."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from ops.commands.selecting import Json

if TYPE_CHECKING:
    from ops.orders import Order

app = typer.Typer(help="Look at group links, and send or close those that are held.", no_args_is_help=True)

Organization = Annotated[str | None, typer.Option("--organization", metavar="ID", help="Only this one.")]
Id = Annotated[str, typer.Argument(metavar="ID", help="Of a group link: its job's id.")]
_STATES = ("pending", "held", "processing", "sent", "failed")
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; the story tells it.")]


@app.command("ls")
def ls(
    organization: Organization = None,
    status: Annotated[
        list[str] | None, typer.Option(help="pending, held, processing, sent, failed; several times.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="So many at most.")] = 20,
    json: Json = False,
) -> None:
    """Count the group links by state, and list those that changed last."""
    import msgspec

    from ops.endpoints import database_of
    from ops.group_links import desk
    from settings import get_settings

    if unknown := [one for one in status or () if one not in _STATES]:
        raise typer.BadParameter(f"{unknown[0]!r} is none of {', '.join(_STATES)}", param_hint="--status")
    with desk.opened(database_of(get_settings())) as connection:
        counts = desk.counts(connection, organization)
        found = desk.links(connection, organization, status or (), limit)
    if json:
        typer.echo(msgspec.json.encode({"counts": counts, "links": found}).decode())
        return
    typer.echo(", ".join(f"{links:,} {state}" for state, links in counts.items()) or "No group links.")
    for one in found:
        when = f"from {one.available_at:%Y-%m-%d %H:%M:%S}" if one.status == "pending" else ""
        tries = f"{one.attempts}/{one.max_attempts}"
        error = (one.last_error or "")[:80]
        typer.echo("  ".join(part for part in (str(one.id), one.status, tries, when, error) if part))


@app.command("show")
def show(id_: Id, json: Json = False) -> None:
    """Show one group link; the phone is masked. `rajada why ID` tells its whole story.

    Exit code 12 if there is none.
    """
    import msgspec

    from ops.endpoints import database_of
    from ops.group_links import desk
    from schemas.masking import masked
    from settings import get_settings

    with desk.opened(database_of(get_settings())) as connection:
        found = desk.shown(connection, id_)
    found["phone"] = masked(str(found["phone"]))
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    for name, value in found.items():
        if value is not None:
            told = f"{value:%Y-%m-%d %H:%M:%S %z}" if isinstance(value, datetime) else value
            typer.echo(f"{name:20}{told}")


@app.command("retry")
def retry(
    id_: Annotated[str | None, typer.Argument(metavar="[ID]", help="One; else those that are held.")] = None,
    organization: Organization = None,
    held_for: Annotated[
        str | None, typer.Option(metavar="CODE", help="Without ID: held for this, such as no_credentials.")
    ] = None,
    reason: Reason = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Don't ask.")] = False,
) -> None:
    """Send now: a held one is released, one that waits runs at once; for failed ones there is `rajada dlq`.

    One that is held as `unknown_outcome` may have reached the student: look into the conversation first.
    Without ID all held ones are sent but those of unknown outcome, unless --held-for names that. Exit code 10
    if the order means nothing in its state.
    """
    from ops.endpoints import bootstrap_of, database_of
    from ops.group_links import desk
    from ops.orders import Orders
    from settings import get_settings

    settings = get_settings()
    url = database_of(settings)
    with desk.opened(url) as connection:
        if id_ is None:
            codes = (held_for,) if held_for else desk.WANTING
            waiting = len(list(desk.held(connection, organization, codes)))
            if waiting and not yes:
                typer.confirm(f"Send {waiting:,} held group links ({', '.join(codes)})?", abort=True)
            released = desk.release_all(connection, settings, organization, codes)
            typer.echo(f"{released:,} group links were released.")
            return
        found = desk.shown(connection, id_)
        action: Order = "release" if found["held"] else "run_now"
        orders = Orders(settings, bootstrap_of(settings), url)
        orders.to_job(connection, action, str(found["id"]), str(uuid4()), reason)
    typer.echo(f"Ordered: {action.replace('_', ' ')} of {found['id']}.")


@app.command("close")
def close(id_: Id, reason: Reason = None) -> None:
    """Close one without sending it (again): it has arrived, or is not wanted any more.

    Exit code 10 if it has ended already.
    """
    from ops.endpoints import bootstrap_of, database_of
    from ops.group_links import desk
    from ops.orders import Orders
    from settings import get_settings

    settings = get_settings()
    url = database_of(settings)
    with desk.opened(url) as connection:
        found = desk.shown(connection, id_)
        orders = Orders(settings, bootstrap_of(settings), url)
        orders.to_job(connection, "cancel", str(found["id"]), str(uuid4()), reason or "closed by hand")
    typer.echo(f"Ordered: {found['id']} is closed.")
