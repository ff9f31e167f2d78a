-- Jobs that wait for a moment ahead, the soonest first.
-- Parameters: organization_id uuid (null = of all), most int. Rows: id text, due timestamptz.
SELECT j.id::text, j.run_after
FROM job_queue j
WHERE j.status = 'pending' AND j.run_after > now() AND j.run_after < 'infinity'
  AND (%(organization_id)s::uuid IS NULL OR j.organization_id = %(organization_id)s)
ORDER BY j.run_after, j.id
LIMIT %(most)s
