-- Facts of due windows for stop 6, one row a window, in order (spec/dispatch.md, step 4).
-- Parameters: organizations, conversations, contacts: uuid[], one element a window;
--   message_windows int[] and messages uuid[]: every message with the number of its window, from 1.
-- Row: n, flows text, found, is_group, is_blocked, force_human, silenced, assignee_kind, tags text[],
--   enrolled_by_window, live_enrollment, live_return_since, gap_ms.
-- `flows` is a JSON document, given with the first window of each organization and null with its others:
--   {"flows": [[pointer id, trigger_config, graph], …], "followups": [followup of a published agent, …]};
--   what was jsonb is a text in it, so that an odd one spoils itself alone.
-- Windows of organizations without an active return flow cost one look-up: `found` is false for them.
WITH asked AS MATERIALIZED (
    SELECT a.n::integer, a.organization_id, a.conversation_id, a.contact_id
    FROM unnest(%(organizations)s::uuid[], %(conversations)s::uuid[], %(contacts)s::uuid[])
        WITH ORDINALITY AS a (organization_id, conversation_id, contact_id, n)
),
armed AS MATERIALIZED (
    SELECT o.organization_id, o.first_n,
        json_agg(json_build_array(f.id, f.trigger_config::text, v.graph::text)) AS flows
    FROM (SELECT organization_id, min(n) AS first_n FROM asked GROUP BY organization_id) o
    JOIN followup_flow_pointers f ON f.organization_id = o.organization_id
    LEFT JOIN followup_flow_versions v ON v.id = f.active_version_id AND v.organization_id = f.organization_id
    WHERE f.status = 'active' AND f.active_version_id IS NOT NULL
      AND f.trigger_config ->> 'kind' = 'inbound_after_silence'
    GROUP BY o.organization_id, o.first_n
),
followups AS (
    SELECT armed.organization_id, json_agg(v.followup::text) AS followups
    FROM armed
    JOIN ai_agents a ON a.organization_id = armed.organization_id AND a.archived_at IS NULL
    JOIN ai_agent_versions v ON v.id = a.published_version_id AND v.organization_id = a.organization_id
    WHERE v.status = 'published' AND v.followup IS NOT NULL
    GROUP BY armed.organization_id
),
-- Per window: its messages, when the first of them came, and which is the newest.
arrived AS (
    SELECT a.n, array_agg(w.message_id::text) AS messages, min(r.created_at) AS first_at,
        (array_agg(r.id ORDER BY coalesce(r.sent_at, r.created_at) DESC NULLS LAST, r.created_at DESC, r.id DESC)
            FILTER (WHERE r.id IS NOT NULL))[1] AS newest_id,
        (array_agg(r.created_at ORDER BY coalesce(r.sent_at, r.created_at) DESC NULLS LAST, r.created_at DESC, r.id DESC)
            FILTER (WHERE r.id IS NOT NULL))[1] AS newest_at
    FROM unnest(%(message_windows)s::integer[], %(messages)s::uuid[]) AS w (n, message_id)
    JOIN asked a ON a.n = w.n
    JOIN armed ON armed.organization_id = a.organization_id
    LEFT JOIN LATERAL (
        SELECT id, sent_at, created_at FROM messages
        WHERE id = w.message_id AND organization_id = a.organization_id
        LIMIT 1
    ) r ON true
    GROUP BY a.n
)
SELECT
    a.n,
    CASE WHEN a.n = armed.first_n THEN
        json_build_object('flows', armed.flows, 'followups', coalesce(followups.followups, '[]'))::text
    END AS flows,
    c.id IS NOT NULL AND p.id IS NOT NULL AS found,
    c.is_group,
    p.is_blocked,
    p.force_human,
    c.bot_silenced_until > now() AS silenced,
    c.assignee_kind::text AS assignee_kind,
    p.tags::text[] AS tags,
    enrolled.by_window AS enrolled_by_window,
    enrolled.live AS live_enrollment,
    enrolled.live_return_since,
    floor(extract(epoch FROM arrived.newest_at) * 1000)::float8
        - floor(extract(epoch FROM previous.at) * 1000)::float8 AS gap_ms
FROM asked a
LEFT JOIN armed ON armed.organization_id = a.organization_id
LEFT JOIN followups ON followups.organization_id = a.organization_id
LEFT JOIN arrived ON arrived.n = a.n
LEFT JOIN LATERAL (
    SELECT id, is_group, bot_silenced_until, assignee_kind FROM conversations
    WHERE armed.organization_id IS NOT NULL AND id = a.conversation_id AND organization_id = a.organization_id
    LIMIT 1
) c ON true
LEFT JOIN LATERAL (
    SELECT id, is_blocked, force_human, tags FROM contacts
    WHERE c.id IS NOT NULL AND id = a.contact_id AND organization_id = a.organization_id
    LIMIT 1
) p ON true
LEFT JOIN LATERAL (
    SELECT
        bool_or(e.live) AS live,
        bool_or(e.live AND e.of_return_flow AND e.started_at >= arrived.first_at) AS live_return_since,
        bool_or(EXISTS (
            SELECT FROM followup_enrollment_events v
            WHERE v.enrollment_id = e.id AND v.organization_id = a.organization_id
              AND v.event_type = 'enrolled_by_inbound_after_silence'
              AND lower(v.payload ->> 'message_id') = ANY (arrived.messages)
        )) AS by_window
    FROM (
        SELECT n.id, n.started_at,
            n.status IN ('active', 'waiting_reply', 'paused_handoff', 'paused_manual') AS live,
            f.trigger_config ->> 'kind' = 'inbound_after_silence' AS of_return_flow
        FROM followup_enrollments n
        LEFT JOIN followup_flow_pointers f ON f.id = n.pointer_id AND f.organization_id = n.organization_id
        WHERE p.id IS NOT NULL AND n.organization_id = a.organization_id AND n.contact_id = a.contact_id
    ) e
) enrolled ON true
-- The silence before the newest message, as its enrolling side counts it when it comes: from the latest of
-- what was there by then. Rows of the same instant count as there: no yield where it is unsure.
LEFT JOIN LATERAL (
    SELECT coalesce(b.sent_at, b.created_at) AS at
    FROM messages b
    WHERE p.id IS NOT NULL AND b.contact_id = a.contact_id AND b.organization_id = a.organization_id
      AND b.direction = 'inbound' AND b.id <> arrived.newest_id AND b.created_at <= arrived.newest_at
    ORDER BY coalesce(b.sent_at, b.created_at) DESC
    LIMIT 1
) previous ON true
ORDER BY a.n
