-- Inbound messages, each with its event in the same statement, as a CRM writes them; in the order given.
-- Parameters: organization uuid, session uuid, and arrays of one length: events uuid[], messages uuid[],
--   contacts uuid[], conversations uuid[], kinds text[], media text[] (url or null).
WITH written AS (
    SELECT *
    FROM unnest(
        %(events)s::uuid[], %(messages)s::uuid[], %(contacts)s::uuid[], %(conversations)s::uuid[],
        %(kinds)s::text[], %(media)s::text[]
    ) WITH ORDINALITY AS w (event_id, message_id, contact_id, conversation_id, kind, media_url, number)
), added AS (
    INSERT INTO messages (
        id, organization_id, conversation_id, channel_session_id, contact_id, type, direction, media_url,
        media_derived_status, sent_at, created_at
    )
    SELECT
        message_id, %(organization)s, conversation_id, %(session)s, contact_id, kind, 'inbound', media_url,
        CASE WHEN media_url IS NOT NULL THEN 'pending' END,
        clock_timestamp(), clock_timestamp() + number * interval '1 microsecond'
    FROM written
)
INSERT INTO event_log (id, organization_id, event_type, entity_kind, entity_id, payload)
SELECT
    event_id, %(organization)s, 'ai_agent.dispatch_requested', 'message', message_id,
    jsonb_build_object(
        'conversation_id', conversation_id,
        'contact_id', contact_id,
        'channel_session_id', %(session)s::uuid,
        'inbound_message_id', message_id
    )
FROM written
ORDER BY number
