-- Set what came of group links, whose rows `POST /` has written; only by a (replay, seq) above the row's. An
-- event that is told again, under a replay number, makes no row pending that runs or has ended.
-- Parameters: rows json, one object a job, each job once; without run_after_ms it is held. Rows: id text, those
-- that were changed.
UPDATE group_link_dispatch_queue q
SET status = CASE r.status
        WHEN 'running' THEN 'processing'
        WHEN 'done' THEN 'sent'
        WHEN 'dead' THEN 'failed'
        ELSE r.status
    END,
    attempts = r.attempts,
    available_at = coalesce(to_timestamp(r.run_after_ms / 1000.0), 'infinity'),
    last_error = r.last_error,
    provider_message_id = coalesce(r.provider_message_id, q.provider_message_id),
    outcome_replay = r.replay,
    outcome_seq = r.seq,
    updated_at = now()
FROM json_to_recordset(%(rows)s::json) AS r (
    id uuid, organization_id uuid, status text, attempts integer, run_after_ms bigint, last_error text,
    provider_message_id text, replay bigint, seq bigint, made boolean
)
WHERE q.id = r.id
  AND (q.organization_id = r.organization_id) IS TRUE
  AND (r.replay, r.seq) > (coalesce(q.outcome_replay, -1), coalesce(q.outcome_seq, -1))
  AND NOT (coalesce(r.made, false) AND r.status = 'pending' AND q.status IN ('processing', 'sent', 'failed'))
RETURNING q.id::text
