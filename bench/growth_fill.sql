-- A small CRM to grow (bench/growth.py): 20 organizations, 2,000 conversations of 5 messages, their events.
SET session_replication_role = replica;
CREATE FUNCTION pg_temp.id(kind text, n bigint) RETURNS uuid LANGUAGE sql IMMUTABLE AS
    $$ SELECT md5(kind || n)::uuid $$;

INSERT INTO organizations (id) SELECT pg_temp.id('o', n) FROM generate_series(0, 19) n;
INSERT INTO channel_sessions (id, organization_id)
    SELECT pg_temp.id('s', n), pg_temp.id('o', n) FROM generate_series(0, 19) n;
INSERT INTO ai_agents (id, organization_id, published_version_id)
    SELECT pg_temp.id('a', n), pg_temp.id('o', n), pg_temp.id('v', n) FROM generate_series(0, 19) n;
INSERT INTO ai_agent_versions (id, organization_id, agent_id, channel_session_id, status, inbound_debounce_ms)
    SELECT pg_temp.id('v', n), pg_temp.id('o', n), pg_temp.id('a', n), pg_temp.id('s', n), 'published', 8000
    FROM generate_series(0, 19) n;
INSERT INTO contacts (id, organization_id, phone_number)
    SELECT pg_temp.id('c', n), pg_temp.id('o', n % 20), '+5511988880' || n FROM generate_series(0, 1999) n;
INSERT INTO conversations (id, organization_id, contact_id, channel_session_id)
    SELECT pg_temp.id('k', n), pg_temp.id('o', n % 20), pg_temp.id('c', n), pg_temp.id('s', n % 20)
    FROM generate_series(0, 1999) n;
INSERT INTO messages (id, organization_id, conversation_id, channel_session_id, contact_id, type, direction,
        sent_at, created_at)
    SELECT pg_temp.id('m', n), pg_temp.id('o', k % 20), pg_temp.id('k', k), pg_temp.id('s', k % 20),
        pg_temp.id('c', k), 'text', 'inbound', now() - make_interval(secs => 10000 - n),
        now() - make_interval(secs => 10000 - n)
    FROM (SELECT n, n % 2000 AS k FROM generate_series(1, 10000::bigint) n) numbered;
INSERT INTO event_log (id, organization_id, event_type, payload)
    SELECT pg_temp.id('e', n), pg_temp.id('o', n % 2000 % 20), 'ai_agent.dispatch_requested', '{}'
    FROM generate_series(1, 10000::bigint) n;
