-- The worker reads what decisions are made of, and writes nothing but its sweep's and leases' rows: what it decides
-- goes through Kafka to the sink.
GRANT SELECT ON
    organizations, channel_sessions, contacts, conversations, messages, ai_agents, ai_agent_versions, ai_routers,
    ai_router_members, followup_flow_pointers, followup_flow_versions, followup_enrollments,
    followup_enrollment_events, event_log, job_queue
TO {role};
-- To pass over rows that somebody is writing, the sweep locks them, and Postgres asks for the right to change some
-- column for that: one that is of no use any more once the row is published.
GRANT UPDATE (partition_key) ON event_log TO {role};
GRANT USAGE ON SCHEMA rajada TO {role};
GRANT SELECT ON rajada.meta, rajada.sink_offsets, rajada.trace, rajada.whatsapp_numbers, rajada.windows_settings TO {role};
GRANT SELECT, INSERT, UPDATE ON rajada.leases TO {role};
GRANT SELECT, INSERT, UPDATE, DELETE ON rajada.swept TO {role};
DO $$
BEGIN
    IF to_regclass('group_link_dispatch_queue') IS NOT NULL THEN
        GRANT SELECT ON group_link_dispatch_queue TO {role};
    END IF;
END
$$;
