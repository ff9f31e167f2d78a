"""Rows of jobs for people: of `job_queue` and of the group links' queue, the newest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final
from uuid import UUID

import psycopg

from db.pool import conninfo_for
from db.queries import load
from ops.asking import asking
from ops.why.evidence import JobRow
from ops.why.now import Now, job_now, paused_words
from ops.why.reading import paused_now
from schemas.masking import masked

STATUSES: Final = ("pending", "running", "held", "done", "failed", "dead")


@dataclass(frozen=True, slots=True)
class Listed:
    """A job as `jobs_list.sql` gives it; the error is masked."""

    id: str
    organization_id: str
    contact_id: str | None
    kind: str
    status: str
    attempts: int
    max_attempts: int
    priority: int
    last_error: str | None
    locked_by: str | None
    locked_at: datetime | None
    run_after: datetime | None
    """None: held."""
    created_at: datetime
    events: int
    outcome: str | None
    """Of its last transition, where it waits."""

    @property
    def held(self) -> bool:
        """It waits for ever."""
        return self.status == "pending" and self.run_after is None

    paused: str | None = None
    """That its organization, or everything, is: since when, and by whom."""

    def now(self, now_ms: int) -> Now:
        """Where it is and when it goes on."""
        known = asdict(self)
        for name in ("priority", "outcome", "paused"):
            known.pop(name)
        row = JobRow(conversation_id=None, message_id=None, **known)
        return job_now(row, now_ms, self.outcome, self.paused)


@dataclass(frozen=True, slots=True)
class Which:
    """Which jobs are meant; None = whichever."""

    ids: Sequence[str] | None = None
    statuses: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    organizations: Sequence[str] | None = None
    contact: str | None = None
    since: datetime | None = None
    """Made since then."""


def job_rows(url: str, which: Which, most: int) -> list[Listed]:
    """The jobs that are meant, the newest first, at most so many. Raises OpsError."""
    values: dict[str, object] = {
        "ids": _uuids(which.ids),
        "statuses": _listed(which.statuses),
        "kinds": _listed(which.kinds),
        "organizations": _uuids(which.organizations),
        "contact": UUID(which.contact) if which.contact is not None else None,
        "since": which.since,
        "most": most,
    }
    session = {"statement_timeout": "10s", "default_transaction_read_only": "on"}
    rows: list[tuple[Any, ...]] = []
    with asking(url), psycopg.connect(conninfo_for(url, "jobs", session), autocommit=True) as connection:
        rows += connection.execute(load("jobs_list"), values).fetchall()
        there = connection.execute("SELECT to_regclass('group_link_dispatch_queue') IS NOT NULL").fetchone()
        if there == (True,):  # a CRM without group links has no such table
            rows += connection.execute(load("jobs_list_group_links"), values).fetchall()
        paused = paused_now(connection)
    jobs = [_masked(Listed(*row)) for row in rows]
    found = [replace(job, paused=paused_words(paused, job.organization_id)) for job in jobs]
    return sorted(found, key=lambda job: job.created_at, reverse=True)[:most]


def _masked(job: Listed) -> Listed:
    return replace(job, last_error=masked(job.last_error)) if job.last_error else job


def _listed(values: Sequence[str] | None) -> list[str] | None:
    return list(values) if values else None


def _uuids(values: Sequence[str] | None) -> list[UUID] | None:
    return [UUID(one) for one in values] if values else None
