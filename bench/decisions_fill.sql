-- A middling CRM: 200 organizations, 40k conversations, 400k messages, 150k jobs (bench/decisions.py).
SET session_replication_role = replica;
CREATE FUNCTION pg_temp.id(kind text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
    $$ SELECT md5(kind || n)::uuid $$;

INSERT INTO organizations (id, settings)
    SELECT pg_temp.id('o', n), '{"ai_dispatch_mode": "native", "other": [1, 2, 3]}' FROM generate_series(1, 200) n;
INSERT INTO channel_sessions (id, organization_id, metadata)
    SELECT pg_temp.id('s', n), pg_temp.id('o', n), CASE n % 4
        WHEN 0 THEN '{"ai_gate": "allowlist"}'::jsonb
        WHEN 1 THEN '{"ai_gate": "allowlist", "ai_gate_mode": "pre_go_live", "ai_test_phone_numbers": ["+5511988880001"]}'
        ELSE '{}' END
    FROM generate_series(1, 200) n;
INSERT INTO ai_agents (id, organization_id, published_version_id, priority)
    SELECT pg_temp.id('a', n), pg_temp.id('o', n % 200 + 1), pg_temp.id('v', n), n % 3 FROM generate_series(1, 600) n;
INSERT INTO ai_agent_versions (id, organization_id, agent_id, channel_session_id, status, inbound_debounce_ms)
    SELECT pg_temp.id('v', n), pg_temp.id('o', n % 200 + 1), pg_temp.id('a', n), pg_temp.id('s', n % 200 + 1),
        CASE WHEN n % 40 = 7 THEN 'superseded' ELSE 'published' END, 8000
    FROM generate_series(1, 600) n;
INSERT INTO followup_flow_versions (id, organization_id, graph)
    SELECT pg_temp.id('fv', n), pg_temp.id('o', n), '{"nodes": [{"id": "t", "type": "trigger"}], "edges": []}' FROM generate_series(1, 200, 3) n;
INSERT INTO followup_flow_pointers (id, organization_id, status, active_version_id, trigger_config)
    SELECT pg_temp.id('fp', n), pg_temp.id('o', n), 'active', pg_temp.id('fv', n),
        '{"kind": "inbound_after_silence", "params": {"threshold_minutes": 1440}}'
    FROM generate_series(1, 200, 3) n;
INSERT INTO contacts (id, organization_id, phone_number, force_human, ai_authorized_at, tags)
    SELECT pg_temp.id('c', n), pg_temp.id('o', n % 200 + 1), '+5511988880' || n, n % 50 = 3,
        CASE WHEN n % 3 > 0 THEN now() - make_interval(days => (n % 40)::int) END, '{vip}'
    FROM generate_series(1, 40000) n;
INSERT INTO conversations (id, organization_id, contact_id, channel_session_id, assignee_kind, bot_silenced_until)
    SELECT pg_temp.id('k', n), pg_temp.id('o', n % 200 + 1), pg_temp.id('c', n), pg_temp.id('s', n % 200 + 1),
        CASE WHEN n % 30 = 1 THEN 'user' END, CASE WHEN n % 60 = 2 THEN 'infinity'::timestamptz END
    FROM generate_series(1, 40000) n;
INSERT INTO messages (id, organization_id, conversation_id, channel_session_id, contact_id, type, direction,
        media_url, media_derived_status, sent_at, created_at)
    SELECT pg_temp.id('m', n), pg_temp.id('o', k % 200 + 1), pg_temp.id('k', k), pg_temp.id('s', k % 200 + 1),
        pg_temp.id('c', k), CASE WHEN n % 7 = 0 THEN 'audio' ELSE 'text' END,
        CASE WHEN n % 3 = 0 THEN 'outbound' ELSE 'inbound' END,
        CASE WHEN n % 7 = 0 THEN 'https://media/' || n END, CASE WHEN n % 7 = 0 THEN 'ready' END,
        now() - make_interval(secs => 400000 - n), now() - make_interval(secs => 400000 - n)
    FROM (SELECT n, (n * 7919) % 40000 + 1 AS k FROM generate_series(1, 400000::bigint) n) numbered;
INSERT INTO followup_enrollments (organization_id, pointer_id, contact_id, conversation_id, status)
    SELECT pg_temp.id('o', n % 200 + 1), pg_temp.id('fp', n % 200 + 1), pg_temp.id('c', n), pg_temp.id('k', n),
        CASE WHEN n % 2 = 0 THEN 'completed' ELSE 'active' END
    FROM generate_series(1, 40000, 5) n;
INSERT INTO event_log (id, organization_id, event_type, payload, status)
    SELECT pg_temp.id('e', n), pg_temp.id('o', ((n * 7919) % 40000 + 1) % 200 + 1), 'ai_agent.dispatch_requested', '{}',
        CASE WHEN n % 11 = 0 THEN 'done' ELSE 'pending' END
    FROM generate_series(1, 400000::bigint) n;
INSERT INTO job_queue (id, organization_id, contact_id, kind, source_event_id, payload, status)
    SELECT pg_temp.id('j', n), pg_temp.id('o', n % 200 + 1), pg_temp.id('c', n % 40000), 'inbound_turn',
        pg_temp.id('old', n), jsonb_build_object('event_ids', jsonb_build_array(
            pg_temp.id('old', n), pg_temp.id('old2', n), pg_temp.id('old3', n))), 'done'
    FROM generate_series(1, 150000) n;
ANALYZE;
