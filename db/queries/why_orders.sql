-- Orders that people gave to jobs. Parameters: jobs (uuid[]).
-- Rows: at timestamptz, action, reason, ordered_by text; in order.
SELECT o.at, o.action, o.reason, o.ordered_by
FROM rajada.orders o
WHERE o.job_id = ANY (%(jobs)s::uuid[])
ORDER BY o.at
