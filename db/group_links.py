"""Asking for a group link: the row of the queue and its event, both or none (spec/group_link.md).

`enqueue_group_link_template` is the same as `POST /` of the HTTP API, for whoever enrols students in a
program of their own: called inside the transaction that stores the enrolment, neither is without the other.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID, uuid4, uuid5

from psycopg import AsyncConnection, Connection

from db.queries import load
from settings import RajadaError

Flow = Literal["personal", "business"]

DEFAULT_ATTEMPTS: Final = 5
MOST_ATTEMPTS: Final = 100
LONGEST_DELAY_MS: Final = 366 * 24 * 3600 * 1000
"""A year: what waits longer was a mistake of units."""

ENROLMENTS: Final = UUID("c2a5d3f0-31f7-5b60-9a0c-8f2f5f6f0d11")
"""Namespace of the ids of group links. Never change it: an enrolment must find its job after any upgrade."""


class NotEnqueued(RajadaError):
    """The queue holds neither the row that was added nor the one that was in its way; ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupLinkRequest:
    """What is to be sent to whom, and when.

    Raises ValueError for a delay above `LONGEST_DELAY_MS`. What a template or a phone must look like is for
    the caller to see to, and for the worker: it discards what can't be sent, and says so.
    """

    organization_id: UUID
    enrolment_id: str
    flow: Flow
    student_name: str
    phone: str
    """E.164."""
    group_link: str
    template_name: str
    template_language: str
    delay_ms: int = 0
    """Below 0 counts as 0."""
    max_attempts: int = DEFAULT_ATTEMPTS
    """Below 1 counts as 1, above `MOST_ATTEMPTS` as that."""

    def __post_init__(self) -> None:
        if self.delay_ms > LONGEST_DELAY_MS:
            raise ValueError(f"delay_ms is above {LONGEST_DELAY_MS}")
        object.__setattr__(self, "delay_ms", max(self.delay_ms, 0))
        object.__setattr__(self, "max_attempts", min(max(self.max_attempts, 1), MOST_ATTEMPTS))

    @property
    def job_id(self) -> UUID:
        """Of its row and its job."""
        return job_of_enrolment(self.organization_id, self.enrolment_id)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The job of an enrolment."""

    job_id: UUID
    available_at: datetime | None
    """Not sent before; None: it is held."""
    created: bool
    """False: the enrolment had its job already, and nothing was changed."""


def job_of_enrolment(organization_id: UUID, enrolment_id: str) -> UUID:
    """The id of an enrolment's row and job: UUIDv5 of both, so that asking again finds the same."""
    return uuid5(ENROLMENTS, f"{organization_id}:{enrolment_id}")


def enqueue_group_link_template(
    connection: Connection[tuple[Any, ...]], request: GroupLinkRequest
) -> Enqueued:
    """Put a group link and its event into Postgres, in the connection's transaction (autocommit: in its own).

    Raises:
        psycopg.Error: nothing was put in.
        NotEnqueued: it was in the queue and was removed in this very moment.
    """
    row = connection.execute(load("group_link_enqueue"), _values(request)).fetchone()
    known = row is None
    if known:
        row = connection.execute(load("group_link_of_enrolment"), _enrolment(request)).fetchone()
    return _enqueued(row, known)


async def enqueue_group_link(
    connection: AsyncConnection[tuple[Any, ...]], request: GroupLinkRequest
) -> Enqueued:
    """The same on a connection of asyncio."""
    row = await (await connection.execute(load("group_link_enqueue"), _values(request))).fetchone()
    known = row is None
    if known:
        # a statement of its own: the first one can't see what another transaction committed meanwhile
        cursor = await connection.execute(load("group_link_of_enrolment"), _enrolment(request))
        row = await cursor.fetchone()
    return _enqueued(row, known)


def _values(request: GroupLinkRequest) -> dict[str, object]:
    return {**asdict(request), "job_id": request.job_id, "event_id": uuid4()}


def _enrolment(request: GroupLinkRequest) -> dict[str, object]:
    return {"organization_id": request.organization_id, "enrolment_id": request.enrolment_id}


def _enqueued(row: tuple[Any, ...] | None, known: bool) -> Enqueued:
    if row is None:
        raise NotEnqueued("The enrolment's group link was removed just now; ask for it again.")
    job_id, available_at = row
    return Enqueued(job_id, available_at, not known)
