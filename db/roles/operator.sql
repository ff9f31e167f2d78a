-- Who runs `rajada` by hand: sees all, orders by Kafka, and keeps our own tables. It changes no table of the CRM but
-- the inbox's status, and adds events to the log (`rajada produce`, replays).
GRANT SELECT ON
    organizations, channel_sessions, contacts, conversations, messages, ai_agents, ai_agent_versions, ai_routers,
    ai_router_members, followup_flow_pointers, followup_flow_versions, followup_enrollments,
    followup_enrollment_events, event_log, job_queue, agent_inbox_items
TO {role};
GRANT INSERT ON event_log TO {role};
GRANT UPDATE (partition_key) ON event_log TO {role};  -- for the locks of `rajada sweep`
GRANT UPDATE (status, resolved_at) ON agent_inbox_items TO {role};
GRANT USAGE ON SCHEMA rajada, connect TO {role};
GRANT SELECT ON ALL TABLES IN SCHEMA rajada, connect TO {role};
GRANT INSERT, UPDATE ON
    rajada.closed_letters, rajada.dropped, rajada.leases, rajada.orders, rajada.replays
TO {role};
GRANT UPDATE ON rajada.trace TO {role};  -- `rajada forget` erases what it tells of a contact
GRANT INSERT, UPDATE, DELETE ON
    rajada.page_tokens, rajada.swept, rajada.tokens, rajada.whatsapp_numbers, rajada.windows_settings
TO {role};
-- `rajada reconcile --once` makes a run by itself
GRANT INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA connect TO {role};
GRANT USAGE ON SEQUENCE connect.fencing_tokens TO {role};
DO $$
BEGIN
    IF to_regclass('group_link_dispatch_queue') IS NOT NULL THEN
        GRANT SELECT ON group_link_dispatch_queue TO {role};
    END IF;
END
$$;
