-- Jobs, the newest first. Parameters, each null = whichever: ids (uuid[]), statuses (text[]; `held` = pending and
-- never due), kinds (text[]), organizations (uuid[]), contact (uuid), since (timestamptz: made since then); and
-- most (integer).
-- Rows: id, organization_id, contact_id, kind, status text, attempts, max_attempts, priority int, last_error,
--   locked_by text, locked_at, run_after (null = held), created_at timestamptz, events int, outcome text (of the
--   last transition that is known, of those that wait).
SELECT
    j.id::text, j.organization_id::text, j.contact_id::text, j.kind::text, j.status::text, j.attempts,
    j.max_attempts, j.priority, j.last_error, j.locked_by, j.locked_at, nullif(j.run_after, 'infinity') AS run_after,
    j.created_at,
    CASE WHEN jsonb_typeof(j.payload -> 'event_ids') = 'array'
        THEN jsonb_array_length(j.payload -> 'event_ids') ELSE 1 END AS events,
    CASE WHEN j.status = 'pending' THEN (
        SELECT t.outcome FROM rajada.trace t
        WHERE t.job_id = j.id AND t.event_id IS NULL AND t.seq > 0
        ORDER BY t.at DESC, t.seq DESC LIMIT 1
    ) END AS outcome
FROM job_queue j
WHERE (%(ids)s::uuid[] IS NULL OR j.id = ANY (%(ids)s))
  AND (%(statuses)s::text[] IS NULL
       OR CASE WHEN j.status = 'pending' AND j.run_after = 'infinity' THEN 'held' ELSE j.status::text END
          = ANY (%(statuses)s))
  AND (%(kinds)s::text[] IS NULL OR j.kind::text = ANY (%(kinds)s))
  AND (%(organizations)s::uuid[] IS NULL OR j.organization_id = ANY (%(organizations)s))
  AND (%(contact)s::uuid IS NULL OR j.contact_id = %(contact)s)
  AND (%(since)s::timestamptz IS NULL OR j.created_at >= %(since)s)
ORDER BY j.created_at DESC, j.id
LIMIT %(most)s
