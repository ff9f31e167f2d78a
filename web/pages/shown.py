"""The pages that are looked at: what each asks the desk for, and its template."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from web.pages.desk import Missing
from web.pages.visits import Visit

STATUSES: Final = ("pending", "running", "held", "done", "failed", "dead")
KINDS: Final = ("inbound_turn", "group_link_template")
MOST_JOBS: Final = 100
MOST_LETTERS: Final = 100


@dataclass(frozen=True, slots=True)
class Shown:
    """A page: its template, and what is put into it."""

    template: str
    values: Mapping[str, object]


Look = Callable[[Visit], Awaitable[Shown]]


async def overview(visit: Visit) -> Shown:
    """Everything at a glance."""
    seen = await visit.lately(visit.desk.overview, visit.viewer.whose)
    return Shown("overview.html", {"seen": seen})


async def jobs(visit: Visit) -> Shown:
    """Jobs by their state."""
    status = _one_of(visit, "status", STATUSES)
    kind = _one_of(visit, "kind", KINDS)
    found = await visit.lately(visit.desk.jobs, visit.viewer.whose, status, kind, MOST_JOBS)
    chosen = {"statuses": STATUSES, "kinds": KINDS, "status": status, "kind": kind, "most": MOST_JOBS}
    return Shown("jobs.html", {"jobs": found, **chosen})


async def alerts(visit: Visit) -> Shown:
    """Alerts."""
    everything = visit.request.query_params.get("all") == "1"
    found = await visit.lately(visit.desk.alerts, visit.viewer.whose, everything)
    return Shown("alerts.html", {"alerts": found, "everything": everything})


async def windows(visit: Visit) -> Shown:
    """Open windows and lanes."""
    seen = await visit.lately(visit.desk.windows, visit.viewer.whose)
    return Shown("windows.html", {"seen": seen})


async def delays(visit: Visit) -> Shown:
    """What waits for its time."""
    seen = await visit.lately(visit.desk.delays, visit.viewer.whose)
    return Shown("delays.html", {"seen": seen})


async def shadow(visit: Visit) -> Shown:
    """What a shadow decided beside the old drain; asked for by hand, since it reads a topic for it."""
    hours = 24 if visit.request.query_params.get("hours") == "24" else 1
    seen = await visit.lately(visit.desk.shadow, visit.viewer.whose, hours)
    return Shown("shadow.html", {"seen": seen, "hours": hours})


async def instances(visit: Visit) -> Shown:
    """Instances and the reconciler's runs."""
    seen = await visit.lately(visit.desk.instances, visit.viewer.whose)
    return Shown("instances.html", {"seen": seen})


async def letters(visit: Visit) -> Shown:
    """Dead letters."""
    asked = visit.request.query_params
    parking, closed = asked.get("parking") == "1", asked.get("closed") == "1"
    reason = asked.get("reason", "").strip()[:100] or None
    found = await visit.lately(
        visit.desk.letters,
        visit.viewer.whose,
        parking=parking,
        closed=closed,
        reason=reason,
        most=MOST_LETTERS,
    )
    return Shown(
        "letters.html",
        {"found": found, "parking": parking, "closed": closed, "reason": reason, "most": MOST_LETTERS},
    )


async def letter(visit: Visit) -> Shown:
    """One dead letter."""
    opened = await visit.now(
        visit.desk.letter, visit.viewer.whose, place(visit), unmasked=visit.viewer.sees_phones
    )
    return Shown("letter.html", {"opened": opened})


async def search(visit: Visit) -> Shown:
    """The story of an id."""
    typed = visit.request.query_params.get("q", "").strip()[:100]
    asked = id_of(typed)
    story, job, wrong = None, None, ""
    if asked is not None:
        story = await visit.lately(visit.desk.story, visit.viewer.whose, asked)
        job_id = story.ids.get("job") or (asked if story.kind == "job" else None)
        if job_id is not None and story.found:
            job = await visit.lately(visit.desk.job, visit.viewer.whose, job_id)
    elif typed:
        wrong = "That is no id: search by the UUID of a message, a contact, an event or a job."
    return Shown("search.html", {"typed": typed, "story": story, "job": job, "wrong": wrong})


LIVE: Final[Mapping[str, Look]] = {
    "": overview,
    "/jobs": jobs,
    "/alerts": alerts,
    "/windows": windows,
    "/delays": delays,
    "/instances": instances,
}
"""Those that follow what happens: path below /live → page."""
STILL: Final[Mapping[str, Look]] = {
    "/letters": letters,
    "/letters/{topic}/{partition}/{offset}": letter,
    "/search": search,
    "/shadow": shadow,
}
"""Those that stay as they were when they were asked for."""


def id_of(text: str) -> str | None:
    """A UUID as it is written everywhere; None: it is none."""
    try:
        return str(UUID(text.strip()))
    except ValueError:
        return None


def place(visit: Visit) -> str:
    """The place of a letter in a path. Raises Missing."""
    parts = [visit.request.path_params[name] for name in ("topic", "partition", "offset")]
    if parts[0] not in ("dead", "parking") or not all(one.isascii() and one.isdigit() for one in parts[1:]):
        raise Missing("There is no such letter.")
    return "/".join(parts)


def _one_of(visit: Visit, name: str, known: tuple[str, ...]) -> str | None:
    asked = visit.request.query_params.get(name, "")
    return asked if asked in known else None
