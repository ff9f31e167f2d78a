"""What a batch's transaction will need, made ready before it begins (pure).

While Postgres writes one batch, the next is decoded and made ready here; the transaction itself then has
little left to do but to wait for Postgres.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from schemas.records import Outcome
from sinks.apply import rows_of
from sinks.rows import EventRow, JobRow, Rows, TraceRow, as_json
from sinks.traces import copied

Version = tuple[int, int, str | None]
"""Replay, seq, and the contact that it is told of."""

RowT = TypeVar("RowT", EventRow, JobRow)


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows of events or jobs for one statement: by id, and as the JSON that the statement takes."""

    rows: dict[str, EventRow] | dict[str, JobRow]
    json: str

    def version(self, name: str) -> Version:
        """What a row takes over."""
        row = self.rows[name]
        return row.replay, row.seq, row.contact_id


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
    """All of a batch. A statement takes each id once: a second contact's row of it is in a further round."""

    outcomes: Sequence[Outcome]
    rows: Rows
    events: Sequence[Changes]
    jobs: Sequence[Jobs]
    running: Sequence[Jobs]
    handed_over: Sequence[str]
    """As the JSON that the statement takes."""
    group_links: Sequence[Changes]
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
        events=[_written(one) for one in _rounds((row.event_id, row) for row in rows.events)],
        jobs=[_jobs(one) for one in _by_id(rows.jobs)],
        running=[_jobs(one) for one in _by_id(rows.running)],
        handed_over=[as_json(one.values()) for one in _by_id(rows.handed_over)],
        group_links=[_written(one) for one in _by_id(rows.group_links)],
        traces=[(row, copied(row)) for row in rows.traces],
        contacts=sorted({row.contact_id for row in rows.jobs if row.contact_id is not None}),
    )


def changes_of(rows: dict[str, EventRow] | dict[str, JobRow]) -> Changes | None:
    """Rows for a statement; None where there are none."""
    return _written(rows) if rows else None


def _written(rows: dict[str, EventRow] | dict[str, JobRow]) -> Changes:
    return Changes(rows, as_json(rows.values()))


def _by_id(rows: Sequence[JobRow]) -> list[dict[str, JobRow]]:
    return _rounds((row.id, row) for row in rows)


def _rounds(rows: Iterable[tuple[str, RowT]]) -> list[dict[str, RowT]]:
    """Rows by id, in as many rounds as one id has rows; nearly always one."""
    rounds: list[dict[str, RowT]] = []
    for name, row in rows:
        for one in rounds:
            if one.setdefault(name, row) is row:
                break
        else:
            rounds.append({name: row})
    return rounds


def _jobs(rows: dict[str, JobRow]) -> Jobs:
    known = {name: row for name, row in rows.items() if not row.made}
    return Jobs(changes_of(known), known, {name: row for name, row in rows.items() if row.made})
