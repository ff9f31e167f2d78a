-- Rows of jobs: those named, and those that hold one of the events. Parameters: ids (uuid[]), events (uuid[]).
-- Rows: id, organization_id, contact_id, conversation_id, message_id text, kind, status text, attempts,
--   max_attempts int, last_error, locked_by text, locked_at, run_after, created_at timestamptz, events int.
--   run_after is null for a held job, which waits for ever.
WITH named AS (
    SELECT j.id FROM job_queue j WHERE j.id = ANY (%(ids)s::uuid[])
    UNION
    SELECT j.id FROM job_queue j WHERE j.source_event_id = ANY (%(events)s::uuid[])
    UNION
    SELECT j.id FROM job_queue j WHERE j.payload -> 'event_ids' ?| %(events)s::text[]
)
SELECT
    j.id::text,
    j.organization_id::text,
    j.contact_id::text,
    lower(j.payload ->> 'conversation_id') AS conversation_id,
    lower(j.payload ->> 'inbound_message_id') AS message_id,
    j.kind::text,
    j.status::text,
    j.attempts,
    j.max_attempts,
    j.last_error,
    j.locked_by,
    j.locked_at,
    nullif(j.run_after, 'infinity') AS run_after,
    j.created_at,
    CASE WHEN jsonb_typeof(j.payload -> 'event_ids') = 'array'
        THEN jsonb_array_length(j.payload -> 'event_ids') ELSE 1 END AS events
FROM job_queue j
JOIN named n ON n.id = j.id
ORDER BY j.created_at, j.id
