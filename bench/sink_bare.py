"""The least that Postgres can be asked to do for the same rows: one UPDATE over arrays a batch, no trace.

What `bench.sink` compares the sink with. Nothing is read from Kafka, decoded or checked; a job that is new is
inserted, since there is no row to update.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

import psycopg

from schemas.records import Job, Outcome

EVENTS = """
UPDATE event_log e
SET status = r.status, outcome = r.outcome, job_id = r.job_id, attempts = r.attempts,
    consumed_by = array_append(e.consumed_by, 'agent-engine'), outcome_replay = 0, outcome_seq = r.seq,
    updated_at = now()
FROM unnest(%s::uuid[], %s::text[], %s::text[], %s::uuid[], %s::integer[], %s::bigint[])
    AS r (id, status, outcome, job_id, attempts, seq)
WHERE e.id = r.id
"""
NEW_JOBS = """
INSERT INTO job_queue (
    id, organization_id, contact_id, kind, source_event_id, payload, status, run_after, created_at,
    outcome_replay, outcome_seq
)
SELECT r.id, r.organization_id, r.contact_id, 'inbound_turn', r.source, r.payload, 'pending',
    to_timestamp(r.at_ms / 1000.0), to_timestamp(r.at_ms / 1000.0), 0, r.seq
FROM unnest(%s::uuid[], %s::uuid[], %s::uuid[], %s::uuid[], %s::jsonb[], %s::bigint[], %s::bigint[])
    AS r (id, organization_id, contact_id, source, payload, at_ms, seq)
"""
JOBS = """
UPDATE job_queue q
SET status = r.status, attempts = r.attempts, run_after = to_timestamp(r.run_after_ms / 1000.0),
    locked_by = CASE WHEN r.status = 'running' THEN 'agent-engine' END,
    locked_at = CASE WHEN r.status = 'running' THEN to_timestamp(r.at_ms / 1000.0) END,
    outcome_replay = 0, outcome_seq = r.seq
FROM unnest(%s::uuid[], %s::text[], %s::integer[], %s::bigint[], %s::bigint[], %s::bigint[])
    AS r (id, status, attempts, run_after_ms, at_ms, seq)
WHERE q.id = r.id
"""


def bare(url: str, outcomes: Sequence[Outcome], batch: int) -> float:
    """Write the outcomes' rows, a transaction a batch; returns the seconds that it took."""
    with psycopg.connect(url, autocommit=True) as connection:
        started = time.perf_counter()
        for first in range(0, len(outcomes), batch):
            with connection.transaction():
                _write(connection, outcomes[first : first + batch])
        return time.perf_counter() - started


def _write(connection: psycopg.Connection[tuple[object, ...]], outcomes: Sequence[Outcome]) -> None:
    events = [(event, outcome) for outcome in outcomes for event in outcome.events]
    if events:
        connection.execute(
            EVENTS,
            [
                [event.event_id for event, _ in events], [outcome.status for _, outcome in events],
                [outcome.outcome for _, outcome in events], [outcome.job_id for _, outcome in events],
                [event.attempts for event, _ in events], [event.seq for event, _ in events],
            ],
        )  # fmt: skip
    new: list[Job] = []
    moved: dict[str, tuple[Job, Outcome]] = {}
    for outcome in outcomes:
        if outcome.job is not None and outcome.stage == "decide":
            new.append(outcome.job)
        elif outcome.job is not None:
            moved[outcome.job.id] = (outcome.job, outcome)
    if new:
        connection.execute(
            NEW_JOBS,
            [
                [job.id for job in new], [job.organization_id for job in new],
                [job.contact_id for job in new],
                [job.source_event_id for job in new], [job.payload for job in new],
                [job.run_after_ms for job in new], [job.seq for job in new],
            ],
        )  # fmt: skip
    if moved:
        rows = list(moved.values())
        connection.execute(
            JOBS,
            [
                [job.id for job, _ in rows], [outcome.job_status for _, outcome in rows],
                [job.attempt for job, _ in rows], [job.run_after_ms for job, _ in rows],
                [outcome.at_ms for _, outcome in rows], [job.seq for job, _ in rows],
            ],
        )  # fmt: skip
