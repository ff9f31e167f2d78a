-- Group links as jobs, the newest first. Parameters and rows: as of jobs_list; no contact has any.
SELECT
    q.id::text, q.organization_id::text, NULL::text AS contact_id, 'group_link_template' AS kind, s.status,
    q.attempts, q.max_attempts, 100 AS priority, q.last_error, NULL::text AS locked_by,
    NULL::timestamptz AS locked_at, nullif(q.available_at, 'infinity') AS run_after, q.created_at, 1 AS events,
    CASE WHEN s.status = 'pending' THEN (
        SELECT t.outcome FROM rajada.trace t
        WHERE t.job_id = q.id AND t.event_id IS NULL AND t.seq > 0
        ORDER BY t.at DESC, t.seq DESC LIMIT 1
    ) END AS outcome
FROM group_link_dispatch_queue q
CROSS JOIN LATERAL (
    SELECT CASE q.status WHEN 'processing' THEN 'running' WHEN 'sent' THEN 'done' ELSE q.status END
) AS s (status)
WHERE (%(ids)s::uuid[] IS NULL OR q.id = ANY (%(ids)s))
  AND (%(statuses)s::text[] IS NULL
       OR CASE WHEN s.status = 'pending' AND q.available_at = 'infinity' THEN 'held' ELSE s.status END
          = ANY (%(statuses)s))
  AND (%(kinds)s::text[] IS NULL OR 'group_link_template' = ANY (%(kinds)s))
  AND (%(organizations)s::uuid[] IS NULL OR q.organization_id = ANY (%(organizations)s))
  AND %(contact)s::uuid IS NULL
  AND (%(since)s::timestamptz IS NULL OR q.created_at >= %(since)s)
ORDER BY q.created_at DESC, q.id
LIMIT %(most)s
