-- How many events have not ended, and how many are dead.
-- Parameters: organization_id uuid (null = of all). Rows: status text, events bigint.
SELECT e.status::text, count(*)
FROM event_log e
WHERE e.status IN ('pending', 'processing', 'dead')
  AND (%(organization_id)s::uuid IS NULL OR e.organization_id = %(organization_id)s)
GROUP BY 1
ORDER BY 1
