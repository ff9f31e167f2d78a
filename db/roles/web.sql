-- The HTTP service puts group links into the queue with their event, and shows what became of them. Everything else
-- that people do there is a command to the worker; what it may change by itself is an inbox item's status and a
-- token's revocation.
GRANT SELECT, INSERT ON event_log TO {role};
GRANT SELECT ON agent_inbox_items TO {role};
GRANT UPDATE (status, resolved_at) ON agent_inbox_items TO {role};
GRANT USAGE ON SCHEMA rajada TO {role};
GRANT SELECT ON rajada.trace TO {role};
GRANT SELECT, INSERT ON rajada.tokens TO {role};
GRANT UPDATE (revoked_by, revoked_at) ON rajada.tokens TO {role};
DO $$
BEGIN
    IF to_regclass('group_link_dispatch_queue') IS NOT NULL THEN
        GRANT SELECT, INSERT ON group_link_dispatch_queue TO {role};
    END IF;
END
$$;
