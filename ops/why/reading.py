"""What Postgres knows: the event log, the job queue, the trace, what was swept."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Final, TypeVar

import psycopg

from db.orders import pauses
from db.pool import conninfo_for
from db.queries import load
from ops.asking import asking
from ops.moments import local
from ops.why.evidence import (
    AlertRow,
    EventRow,
    Evidence,
    JobRow,
    Kind,
    OrderRow,
    SettledRow,
    SweptRow,
    TraceRow,
)
from schemas.alert_catalogue import FAMILIES

MOST_EVENTS: Final = 20
"""Of a contact: its newest."""
MOST_TRACES: Final = 1_000

KINDS: Final = frozenset(family.kind for family in FAMILIES.values())
"""Kinds of inbox items that are ours."""
_KINDS: Final[tuple[Kind, ...]] = ("event", "job", "message", "contact")

Row = TypeVar("Row", EventRow, JobRow, TraceRow, SweptRow, OrderRow, SettledRow, AlertRow)
Connection = psycopg.Connection[tuple[Any, ...]]


def read(url: str, asked: str) -> Evidence:
    """All that the database knows of an id (a lower-case UUID). Raises OpsError.

    Args:
        url: libpq URL.
        asked: of an event, a job, a message or a contact.
    """
    evidence = Evidence(asked)
    session = {"statement_timeout": "10s", "default_transaction_read_only": "on"}
    with asking(url), psycopg.connect(conninfo_for(url, "why", session), autocommit=True) as connection:
        found = {str(row[0]) for row in connection.execute(load("why_kinds"), {"id": asked})}
        if not found and _group_links(connection, [asked]):
            found = {"job"}
        evidence.kinds = [kind for kind in _KINDS if kind in found]
        evidence.looked_at.append("Postgres: event_log, job_queue, messages, contacts, rajada.trace")
        if evidence.kinds:
            _gather(connection, evidence, evidence.kinds[0])
        else:  # what never had a row may still be a letter that somebody has dealt with
            evidence.settled = _rows(connection, SettledRow, "why_settled", ids=[asked])
        evidence.paused = paused_now(connection)
    return evidence


def paused_now(connection: Connection) -> dict[str | None, str]:
    """Organization (None: everything) → since when, and by whom, its jobs are paused."""
    return {
        one.organization_id: f"since {local(one.at.timestamp() * 1000):%Y-%m-%d %H:%M:%S} by "
        f"{one.ordered_by or 'nobody named'}"
        for one in pauses(connection)
    }


def _gather(connection: Connection, evidence: Evidence, kind: Kind) -> None:
    asked = evidence.asked
    if kind == "event":
        ids = {asked}
    else:
        parameters = {"id": asked, "entity": asked, "most": MOST_EVENTS}
        ids = {str(row[0]) for row in connection.execute(load(f"why_events_of_{kind}"), parameters)}
    evidence.event_ids = sorted(ids)
    evidence.events = _rows(connection, EventRow, "why_events", ids=evidence.event_ids)
    jobs = {event.job_id for event in evidence.events if event.job_id} | ({asked} if kind == "job" else set())
    # The trace knows jobs that the rows don't: of events without a row, and where a job went into another.
    for event in _rows(
        connection, TraceRow, "why_trace", events=evidence.event_ids, jobs=[], most=MOST_TRACES
    ):
        jobs |= {event.job_id} if event.job_id else set()
    evidence.jobs = _rows(connection, JobRow, "why_jobs", ids=sorted(jobs), events=evidence.event_ids)
    jobs |= {job.id for job in evidence.jobs}
    evidence.jobs += _group_links(connection, sorted(jobs | {asked}))
    evidence.trace = _rows(
        connection, TraceRow, "why_trace", events=evidence.event_ids, jobs=sorted(jobs), most=MOST_TRACES
    )
    evidence.swept = _rows(connection, SweptRow, "why_swept", ids=evidence.event_ids)
    evidence.orders = _rows(connection, OrderRow, "why_orders", jobs=sorted(jobs))
    about = sorted({*evidence.event_ids, *jobs})
    evidence.settled = _rows(connection, SettledRow, "why_settled", ids=about)
    evidence.alerts = _rows(connection, AlertRow, "why_alerts", ids=about, kinds=list(KINDS))
    _place(connection, evidence)


def _group_links(connection: Connection, ids: list[str]) -> list[JobRow]:
    """Those of the jobs that are group links; a CRM without them has no such table."""
    there = connection.execute("SELECT to_regclass('group_link_dispatch_queue') IS NOT NULL").fetchone()
    if there != (True,):
        return []
    return _rows(connection, JobRow, "why_group_links", ids=ids)


def _place(connection: Connection, evidence: Evidence) -> None:
    """Whose it is: the newest row that says so, else the contact's or message's own."""
    rows: list[TraceRow | JobRow | EventRow] = [*evidence.trace, *evidence.jobs, *evidence.events]
    told: list[tuple[str | None, str | None]] = [(row.organization_id, row.contact_id) for row in rows]
    told += [(row[0], row[1]) for row in connection.execute(load("why_place"), {"id": evidence.asked})]
    for organization_id, contact_id in told:
        evidence.organization_id = evidence.organization_id or organization_id
        evidence.contact_id = evidence.contact_id or contact_id


def _rows(connection: Connection, kind: type[Row], name: str, **parameters: object) -> list[Row]:
    """The rows of a statement as `kind`, whose fields are its columns in their order."""
    cursor = connection.execute(load(name), parameters)
    columns = [column.name for column in cursor.description or ()]
    assert columns == [one.name for one in fields(kind)], f"db/queries/{name}.sql and {kind.__name__} differ"
    return [kind(*row) for row in cursor.fetchall()]
