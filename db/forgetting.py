"""What Postgres holds of a contact, and how our part of it is erased. The CRM's tables are the CRM's."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from uuid import UUID

import psycopg

from db.queries import load
from db.runs import Connection


@dataclass(slots=True)
class Names:
    """Ids under which the trace tells of a contact without naming it."""

    events: set[str] = field(default_factory=set)
    jobs: set[str] = field(default_factory=set)

    def values(self, contact_id: str | None) -> dict[str, object]:
        """As the statements take them."""
        return {
            "id": UUID(contact_id) if contact_id else None,
            "events": _uuids(self.events),
            "jobs": _uuids(self.jobs),
        }


@dataclass(frozen=True, slots=True)
class Known:
    """What the tables hold of a contact."""

    traces: int
    events: int
    jobs: int
    open_jobs: int
    last_at: datetime | None
    """When the last thing happened that the trace knows."""
    links: int = 0
    """Group links to its phone."""
    open_links: int = 0
    """Of them, those that are still to be sent."""


def places_of(connection: Connection, contact_id: str) -> list[tuple[str, str | None]]:
    """Organization and phone of a contact; of one whose row is gone as far as the trace knows."""
    rows = connection.execute(load("forget_place"), {"id": UUID(contact_id)}).fetchall()
    return [(str(organization), None if phone is None else str(phone)) for organization, phone in rows]


def known_of(
    connection: Connection, contact_id: str | None, places: Iterable[tuple[str, str | None]], names: Names
) -> Known:
    """What the tables hold of a contact; the ids of its group links are put into `names`.

    `places`: organization and phone; without `contact_id` the phone alone is meant.
    """
    found = _links_of(connection, [(organization, phone) for organization, phone in places if phone])
    for job_id, events, _ in found:
        names.jobs.add(job_id)
        names.events.update(events)
    row = connection.execute(load("forget_counts"), names.values(contact_id)).fetchone()
    assert row is not None, "counts are always one row"
    counts = (*row, len(found), sum(is_open for *_, is_open in found))
    return Known(*counts)  # type: ignore[arg-type]  # the file says which columns


def erase_trace(connection: Connection, contact_id: str | None, names: Names) -> int:
    """Erase what the trace tells of a contact; returns how many rows."""
    return connection.execute(load("forget_trace"), names.values(contact_id)).rowcount


def _links_of(connection: Connection, places: list[tuple[str, str]]) -> list[tuple[str, list[str], bool]]:
    if not places:
        return []
    values = {
        "organizations": [UUID(organization) for organization, _ in places],
        "phones": ["".join(sign for sign in phone if sign in "0123456789") for _, phone in places],
    }
    with contextlib.suppress(psycopg.errors.UndefinedTable):  # a CRM without group links
        return connection.execute(load("forget_links"), values).fetchall()  # type: ignore[return-value]  # as above
    return []


def _uuids(names: Collection[str]) -> list[UUID]:
    return [UUID(one) for one in sorted(names)]
