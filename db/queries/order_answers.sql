-- What came of orders to jobs, as the workers told it. Parameters: ids text[], jobs uuid[] (same length).
-- Rows: id (of the order), outcome, status, because text; one for each that is told of, the newest.
SELECT a.id, t.outcome, t.status, t.because
FROM unnest(%(ids)s::text[], %(jobs)s::uuid[]) AS a (id, job)
CROSS JOIN LATERAL (
    SELECT t.outcome, t.status, t.facts ->> 'because' AS because
    FROM rajada.trace t
    WHERE t.job_id = a.job AND t.facts ->> 'command' = a.id
    ORDER BY t.at DESC
    LIMIT 1
) AS t
