"""What one transaction writes, statement by statement (design decision 9).

Rows of events and jobs come first: what they take over, since it is above what they had, nobody has told
before, so its trace is copied in as it is. All other trace rows are looked up one by one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from db.queries import load
from schemas.records import Outcome
from sinks import raised
from sinks.alerts import note_conditions
from sinks.offsets import Database
from sinks.prepared import Changes, Jobs, Prepared, Version, changes_of
from sinks.rows import AlertRow, JobRow, TraceRow, TroubleRow, as_json
from sinks.traces import COPY

Versions = dict[str, Version]
"""Id of an event or job → what its row has taken over."""


def write_rows(database: Database, batch: Prepared) -> set[int]:
    """Write events, jobs and trace; returns the places of the outcomes that were not told before."""
    events, jobs = Versions(), Versions()
    for changes in batch.events:
        events |= _changed(database, "sink_events", changes)
    if batch.rows.settled:
        database.execute(load("sink_settle"), {"rows": as_json(batch.rows.settled)})
    for some in (*batch.jobs, *batch.running):
        jobs |= _jobs(database, some)
    for changes in batch.group_links:
        jobs |= _changed(database, "sink_group_links", changes)
    if batch.contacts:
        database.execute(load("sink_jobs_behind"), {"contacts": batch.contacts})
    for rows in batch.handed_over:
        database.execute(load("sink_jobs_handed_over"), {"rows": rows})
    # the jobs' rows stand before: the trace says of whom a job is not
    return _trace(database, batch.traces, events, jobs)


def _jobs(database: Database, jobs: Jobs) -> Versions:
    """Jobs of `job_queue`: first those that should have a row, then all that have none."""
    moved = _changed(database, "sink_jobs_moved", jobs.moved)
    left: dict[str, JobRow] = dict(jobs.made)
    if len(moved) < len(jobs.known):
        left |= {name: row for name, row in jobs.known.items() if name not in moved}
    return moved | _changed(database, "sink_jobs", changes_of(left))


def _changed(database: Database, statement: str, changes: Changes | None) -> Versions:
    if changes is None:
        return {}
    found = database.execute(load(statement), {"rows": changes.json}).fetchall()
    return {name: changes.version(name) for (name,) in found if name in changes.rows}


def _trace(
    database: Database, traces: Sequence[tuple[TraceRow, str | None]], events: Versions, jobs: Versions
) -> set[int]:
    new: list[str] = []
    fresh: set[int] = set()
    doubtful: list[TraceRow] = []
    for row, line in traces:
        if row.event_id is not None:
            version = events.get(row.event_id)
        else:
            version = jobs.get(row.job_id) if row.job_id is not None else None
        if line is not None and version == (row.replay, row.seq, row.contact_id):
            new.append(line)
            fresh.add(row.n)
        else:
            doubtful.append(row)
    if new:
        with database.cursor().copy(COPY) as copy:
            copy.write("".join(new))
    if doubtful:
        told = database.execute(load("sink_trace"), {"rows": as_json(doubtful)}).fetchall()
        fresh.update(int(n) for (n,) in told)
    return fresh


def alerts(
    database: Database,
    outcomes: Sequence[Outcome],
    fresh: Collection[int],
    conditions: Sequence[TroubleRow],
) -> list[AlertRow]:
    """Note what is wrong and what is over; returns the alerts to raise.

    Args:
        database: in the running transaction.
        outcomes: of the batch.
        fresh: the places of those that were not told before.
        conditions: what the sink itself has to tell.
    """
    if troubles := raised.troubles_of(outcomes, fresh):
        database.execute(load("sink_troubles"), {"rows": as_json(troubles)})
    known: set[str] = set()
    if organizations := raised.organizations_of(outcomes, fresh):
        found = database.execute(load("sink_organizations"), {"ids": organizations}).fetchall()
        known = {str(one) for (one,) in found}
    told = raised.alerts_of(outcomes, fresh, known)
    lasting, over = raised.conditions_of(outcomes)
    told += note_conditions(database, [*lasting, *conditions])
    if over:
        database.execute(load("sink_conditions_over"), {"ids": over})
    if cures := raised.cures_of(outcomes):
        database.execute(load("sink_cures"), {"rows": as_json(cures)})
    return raised.counted(told)
