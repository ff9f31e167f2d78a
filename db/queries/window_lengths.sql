-- How windows of a conversation are cut, one row a key, in order (spec/dispatch.md, step 3; b098 to b102).
-- Parameters: organizations, conversations, sessions: uuid[], one element a key.
-- Row: n, debounce text (of the agent that counts; null: none counts, or it has no value), mode,
--   max_wait_ms, max_events (null where rajada.windows_settings says nothing).
-- The agent that counts is the conversation's owner if it is usable, nobody if the owner is not; without
-- an owner the session's: on air before paused (b041), then highest priority, then earliest created (b040).
SELECT
    k.n::integer,
    agent.debounce,
    coalesce(own.mode, common.mode) AS mode,
    coalesce(own.max_wait_ms, common.max_wait_ms) AS max_wait_ms,
    coalesce(own.max_events, common.max_events) AS max_events
FROM unnest(%(organizations)s::uuid[], %(conversations)s::uuid[], %(sessions)s::uuid[])
    WITH ORDINALITY AS k (organization_id, conversation_id, session_id, n)
LEFT JOIN conversations c ON c.id = k.conversation_id AND c.organization_id = k.organization_id
LEFT JOIN LATERAL (
    (
        SELECT a.id, v.inbound_debounce_ms::text AS debounce
        FROM ai_agents a
        JOIN ai_agent_versions v ON v.id = a.published_version_id AND v.organization_id = a.organization_id
        WHERE a.id = c.active_ai_agent_id AND a.organization_id = k.organization_id
          AND a.archived_at IS NULL AND v.status = 'published'
    )
    UNION ALL
    (
        SELECT a.id, v.inbound_debounce_ms::text
        FROM ai_agent_versions v
        JOIN ai_agents a ON a.published_version_id = v.id AND a.organization_id = v.organization_id
        WHERE c.active_ai_agent_id IS NULL
          AND v.channel_session_id = k.session_id AND v.organization_id = k.organization_id
          AND v.status = 'published' AND a.archived_at IS NULL
        ORDER BY a.paused_at IS NOT NULL, a.priority DESC NULLS LAST, a.created_at, a.id
        LIMIT 1
    )
) agent ON true
LEFT JOIN rajada.windows_settings own
    ON own.organization_id = k.organization_id AND own.agent_id = agent.id
LEFT JOIN rajada.windows_settings common
    ON common.organization_id = k.organization_id AND common.agent_id IS NULL
ORDER BY k.n
