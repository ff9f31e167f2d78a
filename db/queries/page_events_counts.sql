-- How many events have not ended, and how many are dead. Two arms, since each has an index of its own: asked as
-- one, all events that there ever were would be read.
-- Parameters: organization_id uuid (null = of all). Rows: status text, events bigint.
SELECT e.status::text, count(*)
FROM event_log e
WHERE e.status IN ('pending', 'processing')
  AND (%(organization_id)s::uuid IS NULL OR e.organization_id = %(organization_id)s)
GROUP BY 1
UNION ALL
SELECT e.status::text, count(*)
FROM event_log e
WHERE e.status = 'dead'
  AND (%(organization_id)s::uuid IS NULL OR e.organization_id = %(organization_id)s)
GROUP BY 1
ORDER BY 1
