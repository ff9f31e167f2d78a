-- Set what came of events (spec/dispatch.md, step 7). A row is changed only by a (replay, seq) above its
-- own; no row, or another organization's or contact's: nothing happens. Of one that moved to another job (merged,
-- covered) the job alone is new. What is done stays done: a window that died took along the replayed events that
-- it holds, without having been able to ask what came of them before.
-- Parameters: rows json, one object an event, each event once. Rows: id text, those that were changed.
UPDATE event_log e
SET status = r.status,
    outcome = r.outcome,
    job_id = r.job_id,
    attempts = CASE WHEN r.moved THEN greatest(e.attempts, r.attempts) ELSE r.attempts END,
    last_error = CASE WHEN r.moved THEN e.last_error ELSE r.last_error END,
    next_attempt_at = to_timestamp(r.next_attempt_at_ms / 1000.0),
    consumed_by = CASE
        WHEN 'agent-engine' = ANY (e.consumed_by) THEN e.consumed_by
        ELSE array_append(e.consumed_by, 'agent-engine')
    END,
    outcome_replay = r.replay,
    outcome_seq = r.seq,
    updated_at = now()
FROM json_to_recordset(%(rows)s::json) AS r (
    event_id uuid, organization_id uuid, contact_id uuid, replay bigint, seq bigint, status text, outcome text,
    job_id uuid, attempts integer, last_error text, next_attempt_at_ms bigint, moved boolean
)
WHERE e.id = r.event_id
  -- a condition, not a way in: to an empty table's plan an organization is as good as an id
  AND (e.organization_id = r.organization_id) IS TRUE
  AND (r.replay, r.seq) > (coalesce(e.outcome_replay, -1), coalesce(e.outcome_seq, -1))
  AND (r.status = 'done' OR e.status::text <> 'done')
  -- an event whose row names no contact has its own id in the key; unknown is no reason either
  AND (split_part(e.partition_key, ':', 2) IN (r.contact_id::text, e.id::text)) IS NOT FALSE
RETURNING e.id::text
