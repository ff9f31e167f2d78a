"""What operators do: each act that can't be undone is asked for once more, on a page of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal
from uuid import uuid4

from starlette.responses import RedirectResponse, Response

from web.pages.desk import Declined, Missing, Order
from web.pages.shown import id_of, place
from web.pages.told import Actor
from web.pages.visits import Visit

LONGEST_REASON: Final = 300


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of a confirmation."""

    verb: str
    means: str
    danger: bool = False
    reason_needed: bool = False


ORDERS: Final[dict[str, tuple[Order, Asked]]] = {
    "cancel": ("cancel", Asked("Cancel", "It ends for good; a running attempt is broken off.", danger=True)),
    "run-now": ("run_now", Asked("Run now", "It runs at once, before others of its contact.")),
    "hold": ("hold", Asked("Hold", "It does not run until somebody releases it.")),
    "release": ("release", Asked("Release", "It runs when its turn comes.")),
}
"""Last part of the path → the order."""
LETTERS: Final[dict[str, Asked]] = {
    "requeue": Asked("Requeue", "It is sent again. What is answered again can't be undone.", danger=True),
    "drop": Asked(
        "Drop",
        "It is given up: nobody will be answered for it. The reason is kept.",
        danger=True,
        reason_needed=True,
    ),
}


async def ask_order(visit: Visit) -> Response:
    """Shall a job really be ordered so?"""
    job_id, _, asked = _order(visit)
    job = await visit.now(visit.desk.job, visit.viewer.whose, job_id)
    if job is None:
        raise Missing(f"There is no job {job_id}.")
    about = [("Job", job.id), ("Kind", job.kind), ("Status", job.status), ("Now", job.now)]
    back = f"/live/search?q={job_id}"
    return visit.page("confirm.html", asked=asked, what="job", about=about, back=back, order=str(uuid4()))


async def order(visit: Visit) -> Response:
    """Order it."""
    job_id, action, asked = _order(visit)
    order_id = id_of(visit.form.get("order", ""))
    if order_id is None:
        raise Declined("That form names no order: load the page anew. Nothing was done.")
    told = await visit.now(visit.desk.order, _actor(visit), action, job_id, order_id, _reason(visit, asked))
    return _done(visit, asked, told, f"/live/search?q={job_id}")


async def ask_letter(visit: Visit) -> Response:
    """Shall a letter really be settled so?"""
    where, _, asked = _letter(visit)
    opened = await visit.now(visit.desk.letter, visit.viewer.whose, where, unmasked=False)
    about = [
        ("Letter", opened.letter.place),
        ("Reason", opened.letter.reason),
        ("Kind", opened.letter.kind),
        ("About", opened.letter.about or ""),
        ("State", opened.letter.state),
        *([("A requeue", opened.goes)] if opened.goes and asked.verb == "Requeue" else []),
    ]
    back = f"/live/letters/{where}"
    return visit.page("confirm.html", asked=asked, what="letter", about=about, back=back, order="")


async def settle_letter(visit: Visit) -> Response:
    """Requeue it, or drop it."""
    where, action, asked = _letter(visit)
    ask = visit.desk.requeue if action == "requeue" else visit.desk.drop
    told = await visit.now(ask, _actor(visit), where, _reason(visit, asked))
    return _done(visit, asked, told, "/live/letters")


async def alert(visit: Visit) -> Response:
    """Acknowledge an alert, or resolve it; either can be followed by the other, so nobody is asked again."""
    alert_id = id_of(visit.request.path_params["id"])
    wanted = visit.form.get("status")
    status: Literal["ack", "resolved"]
    if alert_id is None or wanted not in ("ack", "resolved"):
        raise Missing("There is no such alert.")
    status = "ack" if wanted == "ack" else "resolved"
    await visit.now(visit.desk.deal_with, _actor(visit), alert_id, status)
    visit.counter.lately.forget()
    return RedirectResponse("/live/alerts", status_code=303)


def _order(visit: Visit) -> tuple[str, Order, Asked]:
    job_id = id_of(visit.request.path_params["id"])
    found = ORDERS.get(visit.request.path_params["action"])
    if job_id is None or found is None:
        raise Missing("There is no such job, or no such order.")
    return job_id, *found


def _letter(visit: Visit) -> tuple[str, str, Asked]:
    action = visit.request.path_params["action"]
    if action not in LETTERS:
        raise Missing("A letter is requeued or dropped.")
    return place(visit), action, LETTERS[action]


def _reason(visit: Visit, asked: Asked) -> str:
    reason = " ".join(visit.form.get("reason", "").split())[:LONGEST_REASON]
    if asked.reason_needed and not reason:
        raise Declined("Say why; it is kept. Nothing was done.")
    return reason


def _actor(visit: Visit) -> Actor:
    return Actor(f"page:{visit.viewer.token_id}", visit.viewer.whose)


def _done(visit: Visit, asked: Asked, told: str, back: str) -> Response:
    visit.counter.lately.forget()
    return visit.page("done.html", asked=asked, told=told, back=back)
