-- What a worker told of an order to forget a contact. Parameters: id (text), contact (uuid). Rows: jobs_left int.
SELECT coalesce((t.facts ->> 'jobs_left')::integer, 0)
FROM rajada.trace t
WHERE t.contact_id = %(contact)s AND t.facts ->> 'command' = %(id)s
LIMIT 1
