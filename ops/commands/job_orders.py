"""`rajada jobs cancel|run-now|hold|release`: orders to single jobs; to all of them: `pauses`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated
from uuid import UUID, uuid4

import typer

from ops.commands.selecting import Json, Yes

if TYPE_CHECKING:
    from db.orders import CameOf
    from ops.orders import Order, Written

JobId = Annotated[str, typer.Argument(metavar="ID", help="Of a job.")]
Reason = Annotated[str | None, typer.Option("--reason", metavar="TEXT", help="Why; the story tells it.")]
Wait = Annotated[bool, typer.Option("--wait", help="Return when it is carried out, and say what came of it.")]
Timeout = Annotated[float, typer.Option(min=0.1, help="With --wait: seconds at most.")]
OrderId = Annotated[
    str | None, typer.Option("--order", metavar="UUID", help="The order's own id: given twice, done once.")
]


def add_to(app: typer.Typer) -> None:
    """Register the orders to single jobs."""
    app.command("cancel")(cancel)
    app.command("run-now")(run_now)
    app.command("hold")(hold)
    app.command("release")(release)


def cancel(
    id_: JobId,
    reason: Reason = None,
    order: OrderId = None,
    yes: Yes = False,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    """End a job for good; a running one is broken off. If its answer was there already, that counts.

    Exit code 10 if the order means nothing to the job, 11 if it was not carried out in time, 12 if nobody
    knows the job.
    """
    if json and not yes:
        raise typer.BadParameter("give --yes with --json")
    _to_job("cancel", id_, reason, order, wait, timeout, json, ask=not yes)


def run_now(
    id_: JobId,
    reason: Reason = None,
    order: OrderId = None,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    """Run a job that waits or is held at once, before others. Exit codes as `cancel`."""
    _to_job("run_now", id_, reason, order, wait, timeout, json)


def hold(
    id_: JobId,
    reason: Reason = None,
    order: OrderId = None,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    """Keep a job from running until it is released. Exit codes as `cancel`."""
    _to_job("hold", id_, reason, order, wait, timeout, json)


def release(
    id_: JobId,
    reason: Reason = None,
    order: OrderId = None,
    wait: Wait = False,
    timeout: Timeout = 30.0,
    json: Json = False,
) -> None:
    """Let a held job run. Exit codes as `cancel`."""
    _to_job("release", id_, reason, order, wait, timeout, json)


def _to_job(
    action: Order,
    id_: str,
    reason: str | None,
    order: str | None,
    wait: bool,
    timeout: float,
    json: bool,
    *,
    ask: bool = False,
) -> None:
    from db.runs import connect
    from ops.asking import asking
    from ops.endpoints import bootstrap_of, database_of
    from ops.orders import Orders
    from settings import get_settings

    job_id, order_id = uuid_of(id_, "ID"), uuid_of(order, "--order") if order else str(uuid4())
    settings = get_settings()
    url = database_of(settings)
    orders = Orders(settings, bootstrap_of(settings), url)
    orders.refuse_if_table()
    with asking(url):
        connection = connect(url, "orders")
    with connection:
        if ask:
            place, _ = orders.meant(connection, action, job_id, order_id)
            what = f"{place.kind or 'the'} job {job_id}, which is {place.status or 'not in the table yet'}"
            typer.confirm(f"Cancel {what}? It ends for good; `hold` keeps it for later", abort=True)
        written = orders.to_job(connection, action, job_id, order_id, reason)
        came = orders.wait_for_job(connection, written, timeout) if wait else None
    _tell(written, came, json)


def uuid_of(text: str, where: str) -> str:
    """The UUID as text; raises typer.BadParameter that names `where`."""
    try:
        return str(UUID(text.strip()))
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not a UUID", param_hint=where) from error


def _tell(written: Written, came: CameOf | None, json: bool) -> None:
    command = written.command
    if json:
        told = {
            "order": command.id,
            "action": command.action,
            "job_id": command.job_id,
            "carried_out": came is not None,
            "outcome": came.outcome if came else None,
            "status": came.status if came else None,
        }
        typer.echo(encoded(told))
        return
    name = command.action.replace("_", "-")
    if came is None:
        typer.echo(f"Ordered {name} of job {command.job_id} (order {command.id}).")
        typer.echo(f"`rajada why {command.job_id}` tells when a worker has carried it out.")
    elif came.outcome.startswith("awaited:"):
        typer.echo(f"No worker has job {command.job_id} yet; the order waits for it up to 24 hours.")
    elif came.outcome.startswith("noted:"):
        typer.echo(f"Job {command.job_id} is running; {name} counts when this attempt has ended.")
    else:
        typer.echo(f"Job {command.job_id}: {came.outcome}, now {came.status}.")


def encoded(told: object) -> str:
    """As JSON."""
    import msgspec

    return msgspec.json.encode(told).decode()
