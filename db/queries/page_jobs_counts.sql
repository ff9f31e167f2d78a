-- How many jobs there are in each state; held ones are told apart.
-- Parameters: organization_id uuid (null = of all). Rows: status text, jobs bigint.
SELECT CASE WHEN j.status = 'pending' AND j.run_after = 'infinity' THEN 'held' ELSE j.status::text END, count(*)
FROM job_queue j
WHERE %(organization_id)s::uuid IS NULL OR j.organization_id = %(organization_id)s
GROUP BY 1
ORDER BY 1
