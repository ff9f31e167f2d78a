-- Which of these events are done: by their row, or by the trace where they have none. Parameters: ids (uuid[]).
-- Rows: event_id text.
SELECT e.id::text FROM event_log e WHERE e.id = ANY (%(ids)s::uuid[]) AND e.status = 'done'
UNION
SELECT t.event_id::text FROM rajada.trace t WHERE t.event_id = ANY (%(ids)s::uuid[]) AND t.status = 'done'
