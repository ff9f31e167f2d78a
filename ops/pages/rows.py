"""What the page reads from Postgres: counts, delays, instances, runs, slots. Read-only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

import psycopg

from db import replication
from db.pool import conninfo_for
from db.queries import load
from ops.asking import asking
from ops.job_rows import Listed, Which, job_rows
from ops.moments import now_ms
from ops.pages.held import Came
from schemas.masking import masked
from streams.reconcile.ledger import SCHEDULE
from web.pages.told import Coming, Counted, Delays, Instance, Instances, Job, Run, Slot

Connection = psycopg.Connection[tuple[Any, ...]]

BOUNDS: Final = (
    ("now", timedelta(0)),
    ("within 1 min", timedelta(minutes=1)),
    ("within 10 min", timedelta(minutes=10)),
    ("within 1 h", timedelta(hours=1)),
    ("within 6 h", timedelta(hours=6)),
    ("within 1 d", timedelta(days=1)),
)
LATER: Final = "later"
MOST: Final = 100
RUNS: Final = 10
_TAKES: Final = re.compile(r", in [0-9.]+ (?:ms|s|min|h|d)(?: [0-9]+ (?:s|min|h))?(?![^ ,;)])")
_SESSION: Final = {"statement_timeout": "5s", "default_transaction_read_only": "on"}


@contextmanager
def reading(url: str) -> Iterator[Connection]:
    """A connection that only reads. Raises OpsError."""
    with asking(url), psycopg.connect(conninfo_for(url, "live", _SESSION), autocommit=True) as connection:
        yield connection


def job_counts(connection: Connection, whose: str | None) -> list[Counted]:
    """Jobs by their state."""
    return _counted(connection, "page_jobs_counts", whose)


def link_counts(connection: Connection, whose: str | None) -> list[Counted]:
    """Group links by their state; a CRM without them has none."""
    return _counted(connection, "group_links_counts", whose) if _has_links(connection) else []


def event_counts(connection: Connection, whose: str | None) -> list[Counted]:
    """Events that have not ended, and dead ones."""
    return _counted(connection, "page_events_counts", whose)


def coming(connection: Connection, came: Sequence[Came]) -> list[Coming]:
    """The newest events, with what their rows say of them."""
    events = {
        str(row[0]): row
        for row in connection.execute(load("page_events"), _ids(one.event_id for one in came))
    }
    contacts = _ids(one.contact_id for one in came if one.contact_id)
    phones = {(row[0], row[1]): row[2] for row in connection.execute(load("page_phones"), contacts)}
    found = []
    for one in came:
        row = events.get(one.event_id)
        found.append(
            Coming(
                event_id=one.event_id,
                at_ms=one.at_ms,
                organization_id=one.organization_id,
                contact_id=one.contact_id,
                # an event may name another organization's contact
                phone=phones.get((one.contact_id, one.organization_id)),
                kind=one.kind,
                status=row[1] if row is not None else None,
                outcome=row[2] if row is not None else None,
            )
        )
    return found


def slots(connection: Connection) -> list[Slot]:
    """The database's slots."""
    return [
        Slot(name, one.active, one.wal_status, one.retained_bytes, one.lag_bytes)
        for name, one in replication.slots(connection)
    ]


def runs(connection: Connection, most: int = RUNS) -> list[Run]:
    """The reconciler's newest runs; none where schema connect is not there."""
    if not _has_connect(connection):
        return []
    values = {"schedule": SCHEDULE, "request": None, "most": most}
    return [
        Run(
            began_ms=_ms(row[4]),
            took_s=row[14],
            state=row[6],
            kind=row[2],
            moved=row[8],
            opened=row[10],
            resolved=row[11],
            error=masked(row[13]) if row[13] else None,
        )
        for row in connection.execute(load("connect_history"), values)
    ]


def instances(url: str, whose: str | None) -> Instances:
    """The instances, and of who sees all the reconciler's runs. Raises OpsError."""
    with reading(url) as connection:
        if not _has_connect(connection):
            return Instances((), (), (), 0)
        values = {"organization_id": whose, "most": MOST}
        found = [
            Instance(row[0], row[1], row[2], _ms(row[3]), row[4], row[5])
            for row in connection.execute(load("page_instances"), values)
        ]
        counts = _counted(connection, "page_instances_counts", whose)
        if whose is not None:
            return Instances(counts, found, (), 0)
        row = connection.execute("SELECT count(*) FROM connect.active_notifications").fetchone()
        return Instances(counts, found, runs(connection), row[0] if row is not None else 0)


def delays(url: str, whose: str | None, most: int) -> Delays:
    """What waits for its time, by that. Raises OpsError."""
    due: Counter[int] = Counter()
    following: list[tuple[datetime, str]] = []
    with reading(url) as connection:
        tables = ("jobs", "links") if _has_links(connection) else ("jobs",)
        for table in tables:
            values = {"organization_id": whose, "bounds": [bound for _, bound in BOUNDS]}
            due.update(dict(connection.execute(load(f"page_due_{table}"), values).fetchall()))
            rows = connection.execute(load(f"page_next_{table}"), {"organization_id": whose, "most": most})
            following += [(row[1], row[0]) for row in rows]
    names = [*(name for name, _ in BOUNDS), LATER]
    ids = [job_id for _, job_id in sorted(following)[:most]]
    rows_of = (
        {job.id: job for job in jobs(url, Which(ids=ids, organizations=_one(whose)), 2 * most)} if ids else {}
    )
    soonest = [rows_of[job_id] for job_id in ids if job_id in rows_of]
    return Delays(now_ms(), [(name, due[index]) for index, name in enumerate(names)], soonest)


def jobs(url: str, which: Which, most: int) -> list[Job]:
    """Jobs as the page lists them. Raises OpsError."""
    at_ms = now_ms()
    return [_job(row, at_ms) for row in job_rows(url, which, most)]


def _job(row: Listed, at_ms: int) -> Job:
    now = row.now(at_ms)
    return Job(
        id=row.id,
        organization_id=row.organization_id,
        contact_id=row.contact_id,
        kind=row.kind,
        status="held" if row.held else row.status,
        attempts=row.attempts,
        max_attempts=row.max_attempts,
        created_ms=_ms(row.created_at),
        now=untimed(now.text),
        at_ms=now.at_ms,
        error=row.last_error,
    )


def untimed(text: str) -> str:
    """Where something is, without how long it takes: the page counts that down itself."""
    return _TAKES.sub("", text, count=1)


def _counted(connection: Connection, name: str, whose: str | None) -> list[Counted]:
    return [
        Counted(str(row[0]), row[1]) for row in connection.execute(load(name), {"organization_id": whose})
    ]


def _has_links(connection: Connection) -> bool:
    row = connection.execute("SELECT to_regclass('group_link_dispatch_queue') IS NOT NULL").fetchone()
    return row == (True,)


def _has_connect(connection: Connection) -> bool:
    row = connection.execute("SELECT to_regclass('connect.firings') IS NOT NULL").fetchone()
    return row == (True,)


def _ids(found: Iterator[str]) -> dict[str, object]:
    return {"ids": [UUID(one) for one in sorted(set(found))]}


def _one(whose: str | None) -> list[str] | None:
    return [whose] if whose is not None else None


def _ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)
