-- A page of rows that a new slot's stream may not have: pending, and never seen by a worker.
-- Parameters: event_types (text[]), since (timestamptz), after_created_at (timestamptz), after_id (uuid),
-- page (integer). The first page starts after (since, zero uuid).
-- Rows: whole rows of event_log, in the order of the log.
SELECT *
FROM event_log
WHERE event_type::text = ANY (%(event_types)s)
  AND status = 'pending'
  AND outcome_seq IS NULL
  AND created_at >= %(since)s
  AND created_at < 'infinity'
  AND (created_at, id) > (%(after_created_at)s, %(after_id)s)
ORDER BY created_at, id
LIMIT %(page)s;
