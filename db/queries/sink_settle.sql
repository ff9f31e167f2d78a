-- End events that an older system left open although their job exists (it died between the two): they have no
-- outcome that could be lost. A row that has ended, or has any outcome of ours, stays as it is.
-- Parameters: rows json, one object an event, each event once. No rows.
UPDATE event_log e
SET status = 'done',
    outcome = 'job',
    job_id = r.job_id,
    next_attempt_at = NULL,
    consumed_by = CASE
        WHEN 'agent-engine' = ANY (e.consumed_by) THEN e.consumed_by
        ELSE array_append(e.consumed_by, 'agent-engine')
    END,
    outcome_replay = r.replay,
    outcome_seq = r.seq,
    updated_at = now()
FROM json_to_recordset(%(rows)s::json) AS r (
    event_id uuid, organization_id uuid, replay bigint, seq bigint, job_id uuid
)
WHERE e.id = r.event_id
  AND (e.organization_id = r.organization_id) IS TRUE
  -- conditions, not ways in: to a small table's plan, open events or an organization are as good as an id
  AND (e.status IN ('pending', 'processing')) IS TRUE
  AND e.outcome_seq IS NULL
  AND EXISTS (SELECT FROM job_queue j WHERE j.id = r.job_id AND (j.organization_id = r.organization_id) IS TRUE)
