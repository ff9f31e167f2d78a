"""Our alerts in the CRM's inbox: what is open, and what a person does with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID

import psycopg

from db.pool import conninfo_for
from db.queries import load
from ops.asking import asking
from ops.errors import NotFound
from ops.why.reading import KINDS
from schemas.masking import masked

Status = Literal["open", "ack", "resolved"]
STATUSES: Final[tuple[Status, ...]] = ("open", "ack", "resolved")

_SESSION: Final = {"statement_timeout": "10s"}


@dataclass(frozen=True, slots=True)
class Alert:
    """An inbox item, as `alerts_list.sql` gives it."""

    id: str
    organization_id: str | None
    """None = the platform's own."""
    kind: str
    title: str
    body: str
    """Masked, line by line: what others wrote into the inbox may name people."""
    ref_kind: str | None
    ref_id: str | None
    status: str
    occurrences: int
    created_at: datetime
    last_seen_at: datetime | None
    resolved_at: datetime | None


@dataclass(frozen=True, slots=True)
class Done:
    """What came of dealing with an alert: `was` and `status` are equal when nothing changed."""

    title: str
    was: str
    status: str


def alerts(
    url: str, statuses: Sequence[Status], organizations: Sequence[str] | None, most: int
) -> list[Alert]:
    """The alerts in these states, the last seen first. Raises OpsError.

    Args:
        url: libpq URL.
        statuses: which.
        organizations: whose; None = everybody's and the platform's.
        most: at most so many.
    """
    values = {
        "kinds": sorted(KINDS),
        "statuses": list(statuses),
        "organizations": [UUID(one) for one in organizations] if organizations is not None else None,
        "most": most,
    }
    with asking(url), psycopg.connect(conninfo_for(url, "alerts", _SESSION), autocommit=True) as connection:
        rows: list[tuple[Any, ...]] = connection.execute(load("alerts_list"), values).fetchall()
    return [_masked(Alert(*row)) for row in rows]


def deal_with(
    url: str, alert_id: str, status: Literal["ack", "resolved"], organization: str | None = None
) -> Done:
    """Acknowledge or resolve an alert, of this organization if one is named. Raises NotFound, OpsError."""
    whose = UUID(organization) if organization is not None else None
    values = {"id": UUID(alert_id), "kinds": sorted(KINDS), "status": status, "organization_id": whose}
    with asking(url), psycopg.connect(conninfo_for(url, "alerts", _SESSION), autocommit=True) as connection:
        row: tuple[Any, ...] | None = connection.execute(load("alerts_set"), values).fetchone()
    if row is None:
        raise NotFound(
            f"There is no alert {alert_id} of Rajada's in the inbox; `rajada alerts --all` lists them."
        )
    return Done(*row)


def _masked(alert: Alert) -> Alert:
    return replace(alert, body="\n".join(masked(line, 1_000) for line in alert.body.splitlines()))
