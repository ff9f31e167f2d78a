-- What became of events, by their rows.
-- Parameters: ids uuid[]. Rows: id text, status text, outcome text or null.
SELECT e.id::text, e.status::text, e.outcome FROM event_log e WHERE e.id = ANY (%(ids)s::uuid[])
