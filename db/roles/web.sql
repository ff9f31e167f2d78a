-- The HTTP service puts group links into the queue with their event, and shows what became of them. The live page
-- shows the rest, and nothing that people wrote: of messages and contacts the ids, and phones (masked there). What
-- people do on it is a command to the worker, as `rajada jobs` gives it, or settles dead letters as `rajada dlq`
-- does, in tables of ours; of the CRM's it may change an inbox item's status, and a token's revocation.
GRANT SELECT, INSERT ON event_log TO {role};
GRANT SELECT ON agent_inbox_items, job_queue TO {role};
GRANT UPDATE (status, resolved_at) ON agent_inbox_items TO {role};
GRANT SELECT (id, organization_id, conversation_id, contact_id) ON messages TO {role};
GRANT SELECT (id, organization_id, phone_number) ON contacts TO {role};
GRANT USAGE ON SCHEMA rajada, connect TO {role};
GRANT SELECT ON
    rajada.page_tokens, rajada.relay, rajada.sink_offsets, rajada.swept, rajada.trace, rajada.troubles
TO {role};
GRANT SELECT, INSERT ON rajada.dropped, rajada.orders, rajada.tokens TO {role};
GRANT SELECT, INSERT, UPDATE ON rajada.closed_letters, rajada.replays TO {role};
GRANT UPDATE (revoked_by, revoked_at) ON rajada.tokens TO {role};
GRANT SELECT ON
    connect.active_notifications, connect.firings, connect.requests, connect.whatsapp_instances,
    connect.whatsapp_states
TO {role};
DO $$
BEGIN
    IF to_regclass('group_link_dispatch_queue') IS NOT NULL THEN
        GRANT SELECT, INSERT ON group_link_dispatch_queue TO {role};
    END IF;
END
$$;
