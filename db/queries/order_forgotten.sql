-- What a worker told of an order to forget a contact, or a phone. Parameters: id (text), contact (uuid; null: the
-- order was under a phone's key, which the trace doesn't hold), since (timestamptz: it was given then).
-- Rows: jobs_left int.
SELECT coalesce((t.facts ->> 'jobs_left')::integer, 0)
FROM rajada.trace t
WHERE t.contact_id = %(contact)s::uuid AND t.facts ->> 'command' = %(id)s
UNION ALL
SELECT coalesce((t.facts ->> 'jobs_left')::integer, 0)
FROM rajada.trace t
WHERE %(contact)s::uuid IS NULL AND t.at >= %(since)s
  AND t.contact_id IS NULL AND t.event_id IS NULL AND t.job_id IS NULL AND t.facts ->> 'command' = %(id)s
LIMIT 1
