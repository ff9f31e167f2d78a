"""`rajada pause`, `rajada resume`: orders to all jobs of an organization, or to all there are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

import typer

from ops.commands.job_orders import OrderId, Reason, Timeout, Wait, encoded, uuid_of
from ops.commands.selecting import Json, Yes

if TYPE_CHECKING:
    from typing import Literal

    from db.runs import Connection
    from ops.orders import Written

Organization = Annotated[
    str | None, typer.Option("--organization", metavar="ID", help="Only this one; default: everything.")
]


def pause(
    organization: Organization = None,
    reason: Reason = None,
    order: OrderId = None,
    list_: Annotated[bool, typer.Option("--list", help="Show what is paused; order nothing.")] = False,
    yes: Yes = False,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    """Run no jobs of an organization, or none at all; nothing is lost, what waits runs after `resume`.

    Works without Postgres, too; then it is not written down who paused. Exit code 11 if not every worker had
    read it in time.
    """
    if list_:
        _show_pauses(json)
        return
    if organization is None and not yes:
        if json:
            raise typer.BadParameter("give --yes with --json to pause everything")
        typer.confirm("Pause every job? Nobody is answered until `rajada resume`", abort=True)
    _to_all("pause", organization, reason, order, wait, timeout, json)


def resume(
    organization: Organization = None,
    reason: Reason = None,
    order: OrderId = None,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    """End a pause. One of everything and one of an organization are ended each by itself.

    Exit code 11 if not every worker had read it in time.
    """
    _to_all("resume", organization, reason, order, wait, timeout, json)


def _to_all(
    action: Literal["pause", "resume"],
    organization: str | None,
    reason: str | None,
    order: str | None,
    wait: bool,
    timeout: float,
    json: bool,
) -> None:
    from ops.endpoints import bootstrap_of, database_of
    from ops.errors import OpsError
    from ops.orders import Orders
    from settings import get_settings

    order_id = uuid_of(order, "--order") if order else str(uuid4())
    organization_id = uuid_of(organization, "--organization") if organization else None
    settings = get_settings()
    connection, note, url = None, None, ""
    try:
        url = database_of(settings)
        connection = _connected(url)
    except OpsError as error:
        # a kill switch that needs the database would fail when it is needed most
        note = f"It is not written down who ordered it: {error}"
    orders = Orders(settings, bootstrap_of(settings), url)
    orders.refuse_if_table()
    try:
        written = orders.to_all(connection, action, organization_id, order_id, reason)
        others = _still_paused(connection, organization_id) if action == "resume" else None
    finally:
        if connection is not None:
            connection.close()
    if wait:
        orders.wait_until_read(written, timeout)
    _tell_all(written, wait, [one for one in (note, others) if one], json)


def _connected(url: str) -> Connection:
    from db.runs import connect
    from ops.asking import asking

    with asking(url):
        return connect(url, "orders")


def _still_paused(connection: Connection | None, organization_id: str | None) -> str | None:
    """What stays paused although something was resumed; None: nothing."""
    if connection is None:
        return None
    from db.orders import pauses
    from ops.numbers import several

    left = [one for one in pauses(connection) if one.organization_id != organization_id]
    if not left:
        return None
    if any(one.organization_id is None for one in left):
        return "Everything is still paused by an order of its own: `rajada resume` ends that."
    return f"{several(len(left), 'organization stays', 'organizations stay')} paused: `rajada pause --list`."


def _show_pauses(json: bool) -> None:
    import msgspec
    from rich.console import Console
    from rich.table import Table

    from db.orders import pauses
    from ops.asking import asking
    from ops.endpoints import database_of
    from settings import get_settings

    url = database_of(get_settings())
    with asking(url), _connected(url) as connection:
        found = pauses(connection)
    if json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    console = Console(highlight=False)
    if not found:
        console.print("Nothing is paused.")
        return
    table = Table(box=None, padding=(0, 2, 0, 0))
    for title in ("PAUSED", "SINCE", "BY", "REASON"):
        table.add_column(title, overflow="fold")
    for one in found:
        since = f"{one.at.astimezone():%Y-%m-%d %H:%M:%S}"
        table.add_row(one.organization_id or "everything", since, one.ordered_by or "", one.reason or "")
    console.print(table)


def _tell_all(written: Written, waited: bool, notes: list[str], json: bool) -> None:
    command = written.command
    whose = command.organization_id or "everything"
    if json:
        told = {
            "order": command.id,
            "action": command.action,
            "organization_id": command.organization_id,
            "carried_out": waited,
            "notes": notes,
        }
        typer.echo(encoded(told))
        return
    done = {"pause": "Paused", "resume": "Resumed"}[command.action]
    typer.echo(f"{done if waited else f'Ordered to {command.action}'}: {whose} (order {command.id}).")
    for note in notes:
        typer.echo(note, err=True)
