-- Insert or replace whole job rows; a row is replaced only by a (replay, seq) above its own.
-- Not written: a job whose organization or contact is gone meanwhile, one whose event already has a
-- row of another job (another system's; it keeps its row), and one whose id is another contact's: two events
-- made by hand under one id. (Contacts that the CRM has merged still have the payload's.) `running` falls back to `pending`, but stays locked,
-- while the contact has another running row: the CRM may allow one only. `sink_jobs_behind` sets it right.
-- Rows that leave `running` come before those that enter it: call it with the former, then the latter.
-- Parameters: rows json, one object a job, each job once, of each contact one running at most; without
-- run_after_ms it is held. Rows: id text, those that were written.
INSERT INTO job_queue AS q (
    id, organization_id, contact_id, kind, source_event_id, payload, status, priority, run_after,
    attempts, max_attempts, last_error, locked_by, locked_at, created_at, outcome_replay, outcome_seq
)
SELECT
    r.id, r.organization_id, r.contact_id, r.kind, r.source_event_id, r.payload::jsonb, s.status,
    r.priority, coalesce(to_timestamp(r.run_after_ms / 1000.0), 'infinity'), r.attempts, r.max_attempts,
    r.last_error, CASE WHEN r.locked_at_ms IS NOT NULL THEN 'agent-engine' END,
    to_timestamp(r.locked_at_ms / 1000.0), to_timestamp(r.created_at_ms / 1000.0), r.replay, r.seq
FROM json_to_recordset(%(rows)s::json) AS r (
    id uuid, organization_id uuid, contact_id uuid, kind text, source_event_id uuid, payload text,
    status text, priority integer, run_after_ms bigint, attempts integer, max_attempts integer,
    last_error text, locked_at_ms bigint, created_at_ms bigint, replay bigint, seq bigint
)
CROSS JOIN LATERAL (
    SELECT CASE
        WHEN r.status = 'running' AND EXISTS (
            SELECT FROM job_queue o
            WHERE o.contact_id = r.contact_id AND o.status = 'running' AND o.id <> r.id
        ) THEN 'pending'
        ELSE r.status
    END
) AS s (status)
LEFT JOIN contacts c ON c.id = r.contact_id
WHERE EXISTS (SELECT FROM organizations g WHERE g.id = r.organization_id)
  AND (r.contact_id IS NULL OR c.id IS NOT NULL)
  AND NOT EXISTS (
      SELECT FROM job_queue o
      WHERE (o.organization_id = r.organization_id) IS TRUE AND o.source_event_id = r.source_event_id AND o.id <> r.id
  )
ON CONFLICT (id) DO UPDATE
SET contact_id = excluded.contact_id,
    kind = excluded.kind,
    payload = excluded.payload,
    status = excluded.status,
    priority = excluded.priority,
    run_after = excluded.run_after,
    attempts = excluded.attempts,
    max_attempts = excluded.max_attempts,
    last_error = excluded.last_error,
    locked_by = excluded.locked_by,
    locked_at = excluded.locked_at,
    outcome_replay = excluded.outcome_replay,
    outcome_seq = excluded.outcome_seq
WHERE (excluded.outcome_replay, excluded.outcome_seq)
    > (coalesce(q.outcome_replay, -1), coalesce(q.outcome_seq, -1))
  AND (q.contact_id <> excluded.contact_id AND coalesce(q.payload ->> 'contact_id', '') <> excluded.contact_id::text) IS NOT TRUE
RETURNING q.id::text
