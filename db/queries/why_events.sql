-- Rows of events, without content. Parameters: ids (uuid[]).
-- Rows: id, organization_id, contact_id, conversation_id, message_id text, event_type, status, outcome text,
--   job_id text, attempts int, last_error text, next_attempt_at timestamptz, consumed_by text[],
--   created_at, updated_at timestamptz.
SELECT
    e.id::text,
    e.organization_id::text,
    lower(e.payload ->> 'contact_id') AS contact_id,
    lower(e.payload ->> 'conversation_id') AS conversation_id,
    lower(e.payload ->> 'inbound_message_id') AS message_id,
    e.event_type::text,
    e.status::text,
    e.outcome,
    e.job_id::text,
    e.attempts,
    e.last_error,
    e.next_attempt_at,
    e.consumed_by,
    e.created_at,
    e.updated_at
FROM event_log e
WHERE e.id = ANY (%(ids)s::uuid[])
ORDER BY e.created_at, e.id
