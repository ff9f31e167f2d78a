-- Rows of group links, as jobs. Parameters: ids (uuid[]). Rows: as of why_jobs.
SELECT
    q.id::text, q.organization_id::text, NULL::text AS contact_id, NULL::text AS conversation_id,
    NULL::text AS message_id, 'group_link_template' AS kind,
    CASE q.status WHEN 'processing' THEN 'running' WHEN 'sent' THEN 'done' ELSE q.status END AS status,
    q.attempts, q.max_attempts, q.last_error, NULL::text AS locked_by, NULL::timestamptz AS locked_at,
    nullif(q.available_at, 'infinity') AS run_after, q.created_at, 1 AS events
FROM group_link_dispatch_queue q
WHERE q.id = ANY (%(ids)s::uuid[])
ORDER BY q.created_at, q.id
