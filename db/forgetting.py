"""What Postgres holds of a contact, and how our part of it is erased. The CRM's tables are the CRM's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from db.queries import load
from db.runs import Connection


@dataclass(frozen=True, slots=True)
class Known:
    """What the tables hold of a contact."""

    traces: int
    events: int
    jobs: int
    open_jobs: int
    last_at: datetime | None
    """When the last thing happened that the trace knows."""


def places_of(connection: Connection, contact_id: str) -> list[tuple[str, str | None]]:
    """Organization and phone of a contact; of one whose row is gone as far as the trace knows."""
    rows = connection.execute(load("forget_place"), {"id": UUID(contact_id)}).fetchall()
    return [(str(organization), None if phone is None else str(phone)) for organization, phone in rows]


def known_of(connection: Connection, contact_id: str) -> Known:
    """What the tables hold of a contact."""
    row = connection.execute(load("forget_counts"), {"id": UUID(contact_id)}).fetchone()
    assert row is not None, "counts are always one row"
    return Known(*row)  # type: ignore[arg-type]  # the file says which columns


def erase_trace(connection: Connection, contact_id: str) -> int:
    """Erase what the trace tells of a contact; returns how many rows."""
    return connection.execute(load("forget_trace"), {"id": UUID(contact_id)}).rowcount
