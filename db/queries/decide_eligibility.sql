-- Facts of due windows for stop 7, one row a window, in order (spec/dispatch.md, step 4).
-- Parameters: organizations, conversations: uuid[], one element a window.
-- Row: n, found, now_ms, channel_metadata text (JSON with the keys that count), force_human, silenced,
--   assignee_kind, phone_number, authorized_ms (float8, may be infinite).
-- The contact and the channel session are the conversation's own, whatever the payload says (b068).
SELECT
    a.n::integer,
    p.id IS NOT NULL AND s.id IS NOT NULL AS found,
    floor(extract(epoch FROM now()) * 1000)::float8 AS now_ms,
    jsonb_build_object(
        'disabled', s.metadata -> 'disabled',
        'ai_gate', s.metadata -> 'ai_gate',
        'ai_gate_mode', s.metadata -> 'ai_gate_mode',
        'ai_test_phone_numbers', s.metadata -> 'ai_test_phone_numbers'
    )::text AS channel_metadata,
    p.force_human,
    c.bot_silenced_until > now() AS silenced,
    c.assignee_kind::text AS assignee_kind,
    p.phone_number::text AS phone_number,
    floor(extract(epoch FROM p.ai_authorized_at) * 1000)::float8 AS authorized_ms
FROM unnest(%(organizations)s::uuid[], %(conversations)s::uuid[])
    WITH ORDINALITY AS a (organization_id, conversation_id, n)
LEFT JOIN LATERAL (
    SELECT contact_id, channel_session_id, bot_silenced_until, assignee_kind FROM conversations
    WHERE id = a.conversation_id AND organization_id = a.organization_id
    LIMIT 1
) c ON true
LEFT JOIN LATERAL (
    SELECT id, force_human, phone_number, ai_authorized_at FROM contacts
    WHERE id = c.contact_id AND organization_id = a.organization_id
    LIMIT 1
) p ON true
LEFT JOIN LATERAL (
    SELECT id, metadata FROM channel_sessions
    WHERE id = c.channel_session_id AND organization_id = a.organization_id
    LIMIT 1
) s ON true
ORDER BY a.n
