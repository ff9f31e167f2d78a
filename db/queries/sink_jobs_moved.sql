-- Set what changes of jobs that have their row already, by a (replay, seq) above its own: cheaper than
-- sink_jobs, which those rows go to that are not found here. `running` falls back as there.
-- Parameters: as for sink_jobs. Rows: id text, those that were changed.
UPDATE job_queue q
SET payload = r.payload::jsonb,
    status = CASE
        WHEN r.status = 'running' AND EXISTS (
            SELECT FROM job_queue o
            WHERE o.contact_id = q.contact_id AND o.status = 'running' AND o.id <> q.id
        ) THEN 'pending'
        ELSE r.status
    END,
    priority = r.priority,
    run_after = coalesce(to_timestamp(r.run_after_ms / 1000.0), 'infinity'),
    attempts = r.attempts,
    max_attempts = r.max_attempts,
    last_error = r.last_error,
    locked_by = CASE WHEN r.locked_at_ms IS NOT NULL THEN 'agent-engine' END,
    locked_at = to_timestamp(r.locked_at_ms / 1000.0),
    outcome_replay = r.replay,
    outcome_seq = r.seq
FROM json_to_recordset(%(rows)s::json) AS r (
    id uuid, contact_id uuid, payload text, status text, priority integer, run_after_ms bigint, attempts integer,
    max_attempts integer, last_error text, locked_at_ms bigint, replay bigint, seq bigint
)
WHERE q.id = r.id
  AND (r.replay, r.seq) > (coalesce(q.outcome_replay, -1), coalesce(q.outcome_seq, -1))
  AND (q.contact_id <> r.contact_id AND coalesce(q.payload ->> 'contact_id', '') <> r.contact_id::text) IS NOT TRUE
RETURNING q.id::text
