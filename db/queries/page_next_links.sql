-- Group links that wait for a moment ahead, the soonest first. Parameters and rows: as of page_next_jobs.
SELECT q.id::text, q.available_at
FROM group_link_dispatch_queue q
WHERE q.status = 'pending' AND q.available_at > now() AND q.available_at < 'infinity'
  AND (%(organization_id)s::uuid IS NULL OR q.organization_id = %(organization_id)s)
ORDER BY q.available_at, q.id
LIMIT %(most)s
