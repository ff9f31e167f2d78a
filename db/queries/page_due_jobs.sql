-- How many jobs are due within how long; held ones are not among them.
-- Parameters: organization_id uuid (null = of all), bounds interval[] (ascending). Rows: bound int (number of
-- bounds that have passed when it is due, 0 = within the first), jobs bigint.
SELECT (SELECT count(*) FROM unnest(%(bounds)s::interval[]) b (bound) WHERE j.run_after > now() + b.bound)::integer,
    count(*)
FROM job_queue j
WHERE j.status = 'pending' AND j.run_after < 'infinity'
  AND (%(organization_id)s::uuid IS NULL OR j.organization_id = %(organization_id)s)
GROUP BY 1
