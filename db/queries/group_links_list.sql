-- Group links, those that changed last first. A held one is pending until infinity.
-- Parameters: organization_id uuid (null = of all), statuses text[] (`held` beside the row's own; null = all),
--   most integer.
-- Rows: id uuid, organization_id uuid, enrolment_id text, flow text, status text, attempts, max_attempts integer,
--   available_at timestamptz (null when held), last_error text, updated_at timestamptz.
SELECT * FROM (
    SELECT q.id, q.organization_id, q.enrolment_id, q.flow,
        CASE WHEN q.status = 'pending' AND q.available_at = 'infinity' THEN 'held' ELSE q.status END AS status,
        q.attempts, q.max_attempts, nullif(q.available_at, 'infinity') AS available_at, q.last_error,
        q.updated_at
    FROM group_link_dispatch_queue q
    WHERE %(organization_id)s::uuid IS NULL OR q.organization_id = %(organization_id)s
) AS found
WHERE %(statuses)s::text[] IS NULL OR found.status = ANY (%(statuses)s)
ORDER BY found.updated_at DESC, found.id
LIMIT %(most)s
