"""What a batch's transaction will need, made ready before it begins (pure).

While Postgres writes one batch, the next is decoded and made ready here; the transaction itself then has
little left to do but to wait for Postgres.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.records import Outcome
from sinks.apply import rows_of
from sinks.rows import EventRow, JobRow, Rows, TraceRow, as_json
from sinks.traces import copied


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of events or jobs for one statement: by id, and as the JSON that the statement takes."""

    rows: dict[str, EventRow] | dict[str, JobRow]
    json: str

    def version(self, name: str) -> tuple[int, int]:
        """The (replay, seq) of a row."""
        row = self.rows[name]
        return row.replay, row.seq


@dataclass(frozen=True, slots=True)
class Jobs:
    """Rows of `job_queue`, all running or none."""

    moved: Changes | None
    """Those that have their row, most likely."""
    known: dict[str, JobRow]
    """The rows of `moved`."""
    made: dict[str, JobRow]
    """Those that have none yet."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """All of a batch."""

    outcomes: Sequence[Outcome]
    rows: Rows
    events: Changes | None
    jobs: Jobs
    running: Jobs
    group_links: Changes | None
    traces: Sequence[tuple[TraceRow, str | None]]
    """Each with its line for COPY, if it can be copied."""
    contacts: Sequence[str]
    """Whose jobs are told not to run."""


def prepare(outcomes: Sequence[Outcome]) -> Prepared:
    """Make a batch ready."""
    rows = rows_of(outcomes)
    return Prepared(
        outcomes=outcomes,
        rows=rows,
        events=changes_of({row.event_id: row for row in rows.events}),
        jobs=_jobs(rows.jobs),
        running=_jobs(rows.running),
        group_links=changes_of({row.id: row for row in rows.group_links}),
        traces=[(row, copied(row)) for row in rows.traces],
        contacts=sorted({row.contact_id for row in rows.jobs if row.contact_id is not None}),
    )


def changes_of(rows: dict[str, EventRow] | dict[str, JobRow]) -> Changes | None:
    """Rows for a statement; None where there are none."""
    return Changes(rows, as_json(rows.values())) if rows else None


def _jobs(rows: Sequence[JobRow]) -> Jobs:
    known = {row.id: row for row in rows if not row.made}
    return Jobs(changes_of(known), known, {row.id: row for row in rows if row.made})
