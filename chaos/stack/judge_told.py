"""Rules about what people see (pure): alerts say what is, group links came once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from chaos.stack.books import Books, failed_links

PASSING: Final = frozenset(
    {
        "slot_lost", "slot_lagging", "drain_stopped", "database_away", "sweep_held", "delays_late",
        "clock_skew", "publisher_gap", "publisher_silent", "out_of_credit", "session_not_working",
    }
)  # fmt: skip
"""Alerts that must have resolved themselves by the end of a run, since all is well again."""


def alerts_missing(books: Books) -> Iterator[str]:
    """Organizations with dead jobs or events and no open alert of it."""
    open_ = {(one.organization_id, one.kind) for one in books.alerts if one.status == "open"}
    for job_id, job in books.jobs.items():
        if job.status == "dead" and (job.organization_id, "job_dead") not in open_:
            yield f"job {job_id} is dead and nobody is told"
    if any(row.status == "dead" for row in books.events.values()) and "event_dead" not in {
        kind for _, kind in open_
    }:
        yield "events are dead and nobody is told"
    if books.faults.get("slot") and not {"slot_lost", "publisher_gap"} & {one.kind for one in books.alerts}:
        yield "the slot was dropped and nobody was told"


def alerts_false(books: Books) -> Iterator[str]:
    """Open alerts of what is not, or no longer, so."""
    dead_jobs = {job.organization_id for job in books.jobs.values() if job.status == "dead"}
    dead_events = any(row.status == "dead" for row in books.events.values())
    for one in books.alerts:
        if one.status == "resolved":
            continue
        if one.kind == "job_dead" and one.organization_id not in dead_jobs and not failed_links(books):
            yield f"{one.kind} is {one.status} and no job is dead"
        if one.kind == "event_dead" and not dead_events:
            yield f"{one.kind} is {one.status} and no event is dead"
        if one.kind in PASSING:
            yield f"{one.kind} is still {one.status}"


def alerts_doubled(books: Books) -> Iterator[str]:
    """More than one open item of a kind for one organization."""
    open_ = Counter((one.organization_id, one.kind) for one in books.alerts if one.status == "open")
    for (organization, kind), count in open_.items():
        if count > 1 and kind == "job_dead" and not failed_links(books):
            yield f"{count} items {kind} are open for {organization}"


def links_lost_or_doubled(books: Books) -> Iterator[str]:
    """Group links that were sent twice, or said to be sent and were not, or have no end."""
    for link in books.links:
        if link.messages > 1:
            yield f"{link.phone} got {link.messages} messages"
        if link.status is None:
            if link.known and not books.restored:
                yield f"{link.phone} was asked for and has no row"
        elif link.status == "sent" and link.messages != 1:
            yield f"{link.phone} is sent, {link.messages} messages came"
        elif link.status in ("pending", "processing"):
            yield f"{link.phone} is {link.status}"
