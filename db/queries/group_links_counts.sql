-- How many group links there are in each state; held ones are told apart.
-- Parameters: organization_id uuid (null = of all). Rows: status text, links bigint.
SELECT CASE WHEN q.status = 'pending' AND q.available_at = 'infinity' THEN 'held' ELSE q.status END, count(*)
FROM group_link_dispatch_queue q
WHERE %(organization_id)s::uuid IS NULL OR q.organization_id = %(organization_id)s
GROUP BY 1
ORDER BY 1
