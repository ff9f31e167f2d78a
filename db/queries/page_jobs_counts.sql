-- How many jobs there are in each state; held ones are told apart. Grouped by what has few values by its form:
-- grouped by the name that is shown, all jobs would be sorted, on disk.
-- Parameters: organization_id uuid (null = of all). Rows: status text, jobs bigint.
SELECT CASE WHEN c.held THEN 'held' ELSE c.status END, sum(c.jobs)::bigint
FROM (
    SELECT j.status::text AS status, j.status = 'pending' AND j.run_after = 'infinity' AS held, count(*) AS jobs
    FROM job_queue j
    WHERE %(organization_id)s::uuid IS NULL OR j.organization_id = %(organization_id)s
    GROUP BY 1, 2
) AS c
GROUP BY 1
ORDER BY 1
