-- Jobs of ours that their rows call unfinished though their time has come, whole, oldest first. Parameters: ids
-- (uuid[]) and since (timestamptz: made since then), each null = whichever; older_s (double precision: so long
-- ago their time has come, or their attempt began); most (integer).
-- Rows: id, organization_id, contact_id, kind, source_event_id (its own id where there is none), status text;
--   payload text; priority, attempts, max_attempts integer; created_ms, run_after_ms, replay, seq bigint.
SELECT j.id::text, j.organization_id::text, j.contact_id::text, j.kind::text,
    coalesce(j.source_event_id, j.id)::text, j.status::text, j.payload::text, j.priority, j.attempts, j.max_attempts,
    (extract(epoch FROM j.created_at) * 1000)::bigint,
    (extract(epoch FROM coalesce(nullif(j.run_after, 'infinity'), j.created_at)) * 1000)::bigint,
    coalesce(j.outcome_replay, 0), j.outcome_seq
FROM job_queue j
WHERE j.status IN ('pending', 'running')
  AND j.contact_id IS NOT NULL AND j.outcome_seq IS NOT NULL
  AND CASE WHEN j.status = 'running' THEN coalesce(j.locked_at, j.created_at)
           ELSE coalesce(nullif(j.run_after, 'infinity'), j.created_at) END
      <= now() - make_interval(secs => %(older_s)s)
  AND (%(ids)s::uuid[] IS NULL OR j.id = ANY (%(ids)s))
  AND (%(since)s::timestamptz IS NULL OR j.created_at >= %(since)s)
ORDER BY j.created_at, j.id
LIMIT %(most)s
