"""Orders to jobs, as Postgres knows them: whose a job is, who ordered what, what came of it."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

import psycopg

from db.queries import load
from db.runs import Connection


@dataclass(frozen=True, slots=True)
class JobPlace:
    """Whose a job is: `who` is the contact's id, or the phone of a group link."""

    organization_id: str
    who: str | None
    status: str | None
    kind: str | None

    @property
    def key(self) -> bytes | None:
        """The key under which the job travels; None: it has no contact."""
        return f"{self.organization_id}:{self.who}".encode() if self.who else None


@dataclass(frozen=True, slots=True)
class CameOf:
    """What a worker told of an order."""

    status: str | None
    """Of the job afterwards; `done` where only the order is told."""
    outcome: str
    because: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class Pause:
    """An order to pause that nobody has taken back; of everybody without `organization_id`."""

    organization_id: str | None
    reason: str | None
    ordered_by: str | None
    at: datetime


def place_of(connection: Connection, job_id: str) -> JobPlace | None:
    """Whose a job is; None: nobody knows it."""
    asked = {"id": UUID(job_id)}
    found = connection.execute(load("order_place"), asked).fetchone()
    if found is None or found[1] is None:  # the trace knows a group link, but no phone
        with contextlib.suppress(psycopg.errors.UndefinedTable):  # a CRM without group links
            found = connection.execute(load("order_place_of_link"), asked).fetchone() or found
    return JobPlace(*found) if found is not None else None  # type: ignore[arg-type]  # the files say which columns


def note(
    connection: Connection,
    order_id: str,
    action: str,
    *,
    organization_id: str | None,
    job_id: str | None,
    reason: str | None,
    ordered_by: str | None,
) -> None:
    """Write down who ordered what."""
    values = {
        "id": UUID(order_id),
        "action": action,
        "organization_id": organization_id,
        "job_id": job_id,
        "reason": reason,
        "ordered_by": ordered_by,
    }
    connection.execute(load("order_note"), values)


def is_known(connection: Connection, order_id: str) -> bool:
    """Whether an order was given before."""
    return connection.execute(load("order_known"), {"id": UUID(order_id)}).fetchone() is not None


def came_of(connection: Connection, order_id: str, job_id: str) -> CameOf | None:
    """What came of an order to a job; None: nothing is told yet."""
    values = {"id": order_id, "job": UUID(job_id)}
    row = connection.execute(load("order_outcome"), values).fetchone()
    return CameOf(*row) if row is not None else None  # type: ignore[arg-type]  # the file says which columns


def pauses(connection: Connection) -> list[Pause]:
    """What is paused, as it was ordered; oldest first."""
    rows = connection.execute(load("order_pauses")).fetchall()
    return [Pause(*row) for row in rows]  # type: ignore[arg-type]  # the file says which columns


def jobs_left(connection: Connection, order_id: str, contact_id: str | None, since: datetime) -> int | None:
    """How many jobs of a contact had not ended when it was forgotten; None: nothing is told yet.

    Without `contact_id` the order was given under a phone's key. `since`: it was not given before.
    """
    values = {"id": order_id, "contact": UUID(contact_id) if contact_id else None, "since": since}
    row = connection.execute(load("order_forgotten"), values).fetchone()
    return None if row is None else int(str(row[0]))
