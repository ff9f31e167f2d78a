-- An old drain's jobs of contacts. Parameters: contacts (uuid[]), since (float8, Unix seconds), kinds (text[]).
-- Rows: id, contact_id, source text, events text[] or null (which it names), conversation_id text, created_ms,
--   started_ms float8 or null (it has not run yet; where a row that has run does not tell when: when it was made).
SELECT
    j.id::text,
    j.contact_id::text,
    j.source_event_id::text AS source,
    CASE WHEN jsonb_typeof(j.payload -> 'event_ids') = 'array'
        THEN ARRAY(SELECT lower(named.id) FROM jsonb_array_elements_text(j.payload -> 'event_ids') AS named (id))
    END AS events,
    lower(j.payload ->> 'conversation_id') AS conversation_id,
    extract(epoch FROM j.created_at)::float8 * 1000 AS created_ms,
    CASE WHEN j.locked_at IS NOT NULL OR j.status::text <> 'pending' OR j.attempts > 0
        THEN extract(epoch FROM coalesce(j.locked_at, j.created_at))::float8 * 1000
    END AS started_ms
FROM job_queue j
WHERE j.contact_id = ANY (%(contacts)s::uuid[])
  AND j.created_at >= to_timestamp(%(since)s::float8)
  AND j.kind::text = ANY (%(kinds)s::text[])
  AND j.source_event_id IS NOT NULL
  AND j.outcome_seq IS NULL
ORDER BY j.created_at, j.id
