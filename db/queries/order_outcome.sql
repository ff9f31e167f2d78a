-- What came of an order, as the worker told it. Parameters: id (text), job (uuid or null), contact (uuid or null).
-- Rows: status, outcome text, because text, at timestamptz; the newest first.
SELECT t.status, t.outcome, t.facts ->> 'because', t.at
FROM rajada.trace t
WHERE t.facts ->> 'command' = %(id)s
  AND CASE WHEN %(job)s::uuid IS NOT NULL THEN t.job_id = %(job)s::uuid ELSE t.contact_id = %(contact)s::uuid END
ORDER BY t.at DESC
LIMIT 1
