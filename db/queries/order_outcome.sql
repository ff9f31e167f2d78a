-- What came of an order to a job, as the worker told it. Parameters: id (text), job (uuid).
-- Rows: status, outcome text, because text, at timestamptz; the newest.
SELECT t.status, t.outcome, t.facts ->> 'because', t.at
FROM rajada.trace t
WHERE t.job_id = %(job)s AND t.facts ->> 'command' = %(id)s
ORDER BY t.at DESC
LIMIT 1
