-- How many group links are due within how long. Parameters and rows: as of page_due_jobs.
SELECT (SELECT count(*) FROM unnest(%(bounds)s::interval[]) b (bound) WHERE q.available_at > now() + b.bound)::integer,
    count(*)
FROM group_link_dispatch_queue q
WHERE q.status = 'pending' AND q.available_at < 'infinity'
  AND (%(organization_id)s::uuid IS NULL OR q.organization_id = %(organization_id)s)
GROUP BY 1
