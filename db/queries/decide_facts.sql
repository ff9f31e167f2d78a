-- Facts of due windows for stops 0 to 5 and 8, one row a window, in order (spec/dispatch.md, step 4).
-- Parameters: organizations, conversations, contacts, sessions: uuid[], one element a window;
--   events text[]: the ids of all events of all windows.
-- Row: n, now_ms, organization_status, dispatch_mode, conversation_found, is_group, agent_can_execute,
--   assisted, latest_message_id, unread_media_created_ms, contact_found, known_organizations text[],
--   known_events text[], known_jobs text[], known_contacts text[], known_done bool[].
-- Known are events that have an outcome, and those whose row in the log belongs to another contact than the
-- window's: an id that somebody used twice. The contact is that of the row, or of the job.
-- agent_can_execute and assisted stand with the first window of each organization and session, the known
-- events of all windows with the first window, null with the others: spreading them is quicker there than
-- joins here.
-- Look-ups are LATERAL with a LIMIT: whatever the planner believes of the sizes, it goes by the index.
-- Milliseconds are float8, so that an infinite timestamp is a value and not an error. Nothing here casts
-- what a jsonb holds: a row of odd content must not fail its whole batch.
WITH asked AS MATERIALIZED (
    SELECT a.n::integer, a.organization_id, a.conversation_id, a.contact_id, a.session_id,
        row_number() OVER (PARTITION BY a.organization_id, a.session_id ORDER BY a.n) = 1 AS first_of_session
    FROM unnest(
        %(organizations)s::uuid[], %(conversations)s::uuid[], %(contacts)s::uuid[], %(sessions)s::uuid[]
    ) WITH ORDINALITY AS a (organization_id, conversation_id, contact_id, session_id, n)
),
-- Stop 0: jobs that name one of the batch's events in their payload, found by few scans of the index, each
-- for a hundred events: a scan takes quadratic time in its ids, and one an event would start too often.
naming_jobs AS MATERIALIZED (
    SELECT j.id, j.organization_id, j.contact_id, j.event_ids
    FROM (
        SELECT array_agg(e.event_id) AS events
        FROM unnest(%(events)s::text[]) WITH ORDINALITY AS e (event_id, place)
        GROUP BY e.place / 100
    ) part
    CROSS JOIN LATERAL (
        SELECT id, organization_id, contact_id, payload -> 'event_ids' AS event_ids
        FROM job_queue
        WHERE payload -> 'event_ids' ?| part.events
    ) j
),
known AS (
    SELECT
        array_agg(d.organization_id::text ORDER BY d.rank, d.job_id) AS organizations,
        array_agg(d.event_id ORDER BY d.rank, d.job_id) AS events,
        array_agg(d.job_id::text ORDER BY d.rank, d.job_id) AS jobs,
        array_agg(d.contact_id ORDER BY d.rank, d.job_id) AS contacts,
        array_agg(d.done ORDER BY d.rank, d.job_id) AS done
    FROM (
        SELECT 1 AS rank, l.organization_id, l.id::text AS event_id, l.job_id,
            -- an event whose row names no contact has its own id in the key
            nullif(split_part(l.partition_key, ':', 2), l.id::text) AS contact_id,
            l.status = 'done' AS done
        FROM event_log l
        JOIN unnest(%(events)s::text[], %(message_windows)s::integer[]) AS e (event_id, n)
            ON l.id = e.event_id::uuid
        WHERE l.status = 'done'
           OR l.partition_key <> concat_ws(
               ':', (%(organizations)s::uuid[])[e.n], (%(contacts)s::uuid[])[e.n]
           ) AND l.event_type::text = 'ai_agent.dispatch_requested'
        UNION ALL
        SELECT 2, j.organization_id, j.source_event_id::text, j.id, j.contact_id::text, true
        FROM job_queue j
        WHERE j.source_event_id = ANY (%(events)s::text[]::uuid[])
        UNION ALL
        SELECT 3, j.organization_id, named.event_id, j.id, j.contact_id::text, true
        FROM naming_jobs j
        CROSS JOIN LATERAL jsonb_array_elements_text(
            CASE jsonb_typeof(j.event_ids) WHEN 'array' THEN j.event_ids ELSE '[]' END
        ) AS named (event_id)
    ) d
)
SELECT
    a.n,
    floor(extract(epoch FROM now()) * 1000)::float8 AS now_ms,
    o.status::text AS organization_status,
    o.settings ->> 'ai_dispatch_mode' AS dispatch_mode,
    c.id IS NOT NULL AS conversation_found,
    c.is_group,
    serving.agent_can_execute,
    serving.assisted,
    latest.id::text AS latest_message_id,
    media.created_ms AS unread_media_created_ms,
    p.id IS NOT NULL AS contact_found,
    k.organizations AS known_organizations,
    k.events AS known_events,
    k.jobs AS known_jobs,
    k.contacts AS known_contacts,
    k.done AS known_done
FROM asked a
LEFT JOIN LATERAL (
    SELECT status, settings FROM organizations WHERE id = a.organization_id LIMIT 1
) o ON true
LEFT JOIN LATERAL (
    SELECT id, is_group FROM conversations
    WHERE id = a.conversation_id AND organization_id = a.organization_id
    LIMIT 1
) c ON true
LEFT JOIN LATERAL (
    SELECT id FROM contacts WHERE id = a.contact_id AND organization_id = a.organization_id LIMIT 1
) p ON true
-- Agents that can execute on the session: published on it, or reached by an active router of it.
LEFT JOIN LATERAL (
    SELECT count(*) > 0 AS agent_can_execute,
        coalesce(bool_or(agent.operation_mode = 'assisted'), false) AS assisted
    FROM (
        SELECT g.operation_mode
        FROM ai_agent_versions v
        JOIN ai_agents g ON g.published_version_id = v.id AND g.organization_id = v.organization_id
        WHERE v.channel_session_id = a.session_id AND v.organization_id = a.organization_id
          AND v.status = 'published' AND g.archived_at IS NULL
        UNION ALL
        SELECT g.operation_mode
        FROM ai_routers r
        CROSS JOIN LATERAL (
            SELECT r.fallback_agent_id AS agent_id
            UNION ALL
            SELECT m.agent_id FROM ai_router_members m
            WHERE m.router_id = r.id AND m.organization_id = r.organization_id
        ) candidate
        JOIN ai_agents g ON g.id = candidate.agent_id AND g.organization_id = r.organization_id
        JOIN ai_agent_versions v ON v.id = g.published_version_id AND v.organization_id = g.organization_id
        WHERE r.channel_session_id = a.session_id AND r.organization_id = a.organization_id
          AND r.is_active AND v.status = 'published' AND g.archived_at IS NULL
    ) agent
    WHERE a.first_of_session
) serving ON a.first_of_session
LEFT JOIN known k ON a.n = 1
LEFT JOIN LATERAL (
    SELECT m.id
    FROM messages m
    WHERE m.organization_id = a.organization_id AND m.conversation_id = a.conversation_id
      AND m.direction = 'inbound' AND coalesce(m.sent_at, m.created_at) IS NOT NULL
    ORDER BY coalesce(m.sent_at, m.created_at) DESC, m.created_at DESC, m.id DESC
    LIMIT 1
) latest ON true
LEFT JOIN LATERAL (
    SELECT floor(extract(epoch FROM newest.created_at) * 1000)::float8 AS created_ms
    FROM (
        SELECT m.created_at, m.media_derived_status
        FROM messages m
        WHERE m.conversation_id = a.conversation_id AND m.organization_id = a.organization_id
          AND m.direction = 'inbound' AND m.type IN ('audio', 'image', 'document', 'video')
          AND m.media_url IS NOT NULL AND m.media_url <> ''
        ORDER BY m.created_at DESC
        LIMIT 20
    ) newest
    WHERE newest.media_derived_status IS NULL
       OR newest.media_derived_status NOT IN ('ready', 'failed', 'skipped')
    ORDER BY newest.created_at DESC
    LIMIT 1
) media ON true
ORDER BY a.n
