-- Events of a stretch of time, to be compared with those that the shadow saw. Parameters: event_type (text), since,
--   until (float8, Unix seconds), most (integer).
-- Rows: id text, organization_id text, contact_id text (as the payload has it), created_ms float8; oldest first.
SELECT
    e.id::text,
    e.organization_id::text,
    lower(e.payload ->> 'contact_id') AS contact_id,
    extract(epoch FROM e.created_at)::float8 * 1000 AS created_ms
FROM event_log e
WHERE e.event_type::text = %(event_type)s
  AND e.created_at >= to_timestamp(%(since)s::float8)
  AND e.created_at < to_timestamp(%(until)s::float8)
  AND e.outcome_seq IS NULL
ORDER BY e.created_at
LIMIT %(most)s
