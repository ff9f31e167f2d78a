-- Whose a job is, by its row, else by the trace. Parameters: id (uuid).
-- Rows: organization_id, contact_id, status, kind text; at most one.
SELECT j.organization_id::text, j.contact_id::text, j.status::text, j.kind::text
FROM job_queue j
WHERE j.id = %(id)s
UNION ALL
SELECT * FROM (
    SELECT t.organization_id::text, t.contact_id::text, t.status, NULL
    FROM rajada.trace t
    WHERE t.job_id = %(id)s AND t.event_id IS NULL AND t.organization_id IS NOT NULL
    ORDER BY t.at DESC, t.replay DESC, t.seq DESC
    LIMIT 1
) AS told
LIMIT 1
