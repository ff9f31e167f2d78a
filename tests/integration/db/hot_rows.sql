-- Beside bench/growth_fill.sql: so many rows in the other tables that no index is taken because there is nothing.
INSERT INTO job_queue (id, organization_id, contact_id, kind, source_event_id, status, run_after, outcome_seq)
    SELECT pg_temp.id('j', n), pg_temp.id('o', n % 20), pg_temp.id('c', n % 2000), 'agent_turn', pg_temp.id('e', n),
        CASE WHEN n % 10 = 0 THEN 'pending' WHEN n < 2000 AND n % 100 = 1 THEN 'running' ELSE 'done' END,
        now() + make_interval(secs => n - 5000), n
    FROM generate_series(1, 10000::bigint) n;
UPDATE event_log SET status = 'done', outcome_seq = 1 WHERE get_byte(uuid_send(id), 0) >= 25;
INSERT INTO group_link_dispatch_queue (
        id, organization_id, enrolment_id, flow, phone, group_link, template_name, template_language, status, updated_at
    )
    SELECT pg_temp.id('g', n), pg_temp.id('o', n % 20), n::text, 'personal', '+5511988880000', 'l', 't', 'pt_BR',
        CASE WHEN n % 100 = 0 THEN 'pending' WHEN n % 100 = 1 THEN 'processing' ELSE 'sent' END,
        now() - make_interval(secs => n)
    FROM generate_series(1, 5000::bigint) n;
INSERT INTO agent_inbox_items (organization_id, kind, title, status, ref_kind, ref_id, created_at)
    SELECT pg_temp.id('o', n % 20), 'kind' || n % 10, 'title' || n % 7,
        CASE WHEN n % 50 = 0 THEN 'open' ELSE 'resolved' END, 'job', pg_temp.id('j', n), now() - make_interval(secs => n)
    FROM generate_series(1, 5000::bigint) n;
INSERT INTO rajada.troubles (about, id, kind, title, organization_id, body, said_at, at)
    SELECT (ARRAY['event', 'job'])[1 + n % 2], pg_temp.id('e', n)::text, (ARRAY['event_dead', 'job_dead'])[1 + n % 2],
        'title' || n % 7, pg_temp.id('o', n % 20), '', now(), now() - make_interval(secs => n)
    FROM generate_series(1, 2000::bigint) n;
INSERT INTO rajada.dropped (kind, id, reason, topic, partition, "offset")
    SELECT 'event', pg_temp.id('e', n), '', 't', 0, n FROM generate_series(1, 2000::bigint) n;
INSERT INTO rajada.closed_letters (topic_id, topic, partition, "offset", how, about)
    SELECT 't' || n % 3, 't', n % 8, n, CASE WHEN n % 5 = 0 THEN 'requeued' ELSE 'parked' END, pg_temp.id('e', n) FROM generate_series(1, 5000::bigint) n;
INSERT INTO rajada.orders (id, action, organization_id)
    SELECT gen_random_uuid(), 'cancel', pg_temp.id('o', n % 20) FROM generate_series(1, 2000::bigint) n;
INSERT INTO rajada.leases (name, holder, held_until, rests_until)
    SELECT 'l' || n, 'h', now(), now() FROM generate_series(1, 100) n;
INSERT INTO connect.whatsapp_instances (id, organization_id, state, state_since)
    SELECT pg_temp.id('i', n), pg_temp.id('o', n % 20),
        CASE WHEN n % 50 = 0 THEN 'provisioning' WHEN n % 500 = 1 THEN 'provisioning_failed' ELSE 'connected' END,
        now() - interval '1 day'
    FROM generate_series(1, 5000::bigint) n;
INSERT INTO connect.firings (id, schedule, tick, kind, owner, state, began_at)
    SELECT pg_temp.id('f', n), 's' || n % 3, now() - make_interval(mins => n::integer), 'tick', 'o', 'done',
        now() - make_interval(mins => n::integer)
    FROM generate_series(1, 3000::bigint) n;
INSERT INTO connect.requests (id, schedule, firing)
    SELECT gen_random_uuid(), 's' || n % 3, CASE WHEN n % 100 > 0 THEN pg_temp.id('f', n) END
    FROM generate_series(1, 2000::bigint) n;
INSERT INTO connect.whatsapp_moves (organization_id, instance_id, from_state, to_state, reason, firing, token)
    SELECT pg_temp.id('o', n % 20), pg_temp.id('i', n), 'a', 'b', '', pg_temp.id('f', n), n
    FROM generate_series(1, 5000::bigint) n;
INSERT INTO connect.system_notifications (
        about, organization_id, kind, severity, title, body, subject_kind, subject_id, first_seen_at, resolved_at
    )
    SELECT gen_random_uuid(), pg_temp.id('o', n % 20), 'k', 'warn', '', '', '', '', now(),
        CASE WHEN n % 20 > 0 THEN now() END
    FROM generate_series(1, 2000::bigint) n;
INSERT INTO rajada.trace (at, organization_id, contact_id, message_id, event_id, job_id, seq, stage, status)
    SELECT now() + make_interval(days => (ARRAY[-1, 0, 1, 2, 3, 4, 5, 6, 7, 90])[d]), pg_temp.id('o', n % 20),
        pg_temp.id('c', n % 2000), pg_temp.id('m', n), pg_temp.id('e', n), pg_temp.id('j', n), n, 'job', 'done'
    FROM generate_series(1, 2000::bigint) n, generate_series(1, 10) d;
INSERT INTO rajada.swept (event_id, organization_id, next_sweep_at)
    SELECT pg_temp.id('e', n), pg_temp.id('o', n % 20), now() FROM generate_series(1, 2000::bigint) n;
INSERT INTO followup_enrollments (id, organization_id, pointer_id, contact_id)
    SELECT pg_temp.id('n', n), pg_temp.id('o', n % 20), pg_temp.id('p', n % 100), pg_temp.id('c', n % 2000)
    FROM generate_series(1, 5000::bigint) n;
INSERT INTO followup_enrollment_events (organization_id, enrollment_id, event_type)
    SELECT pg_temp.id('o', n % 20), pg_temp.id('n', n), 'sent' FROM generate_series(1, 5000::bigint) n;
INSERT INTO followup_flow_pointers (id, organization_id, status)
    SELECT pg_temp.id('p', n), pg_temp.id('o', n % 20), 'active' FROM generate_series(0, 99::bigint) n;
