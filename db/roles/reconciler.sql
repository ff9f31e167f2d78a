-- The reconciler has schema `connect` and no other. What it must know of the rest it reads through the views there,
-- which look with their owner's rights.
GRANT USAGE ON SCHEMA connect TO {role};
GRANT SELECT ON ALL TABLES IN SCHEMA connect TO {role};
GRANT UPDATE ON connect.whatsapp_instances, connect.turns TO {role};
GRANT INSERT, DELETE ON connect.whatsapp_moves TO {role};
GRANT INSERT, UPDATE ON connect.schedules TO {role};
GRANT INSERT, UPDATE, DELETE ON connect.firings, connect.requests, connect.system_notifications TO {role};
GRANT USAGE ON SEQUENCE connect.fencing_tokens TO {role};
GRANT EXECUTE ON FUNCTION
    connect.reserve_whatsapp_reconciliation_lease(integer, text, interval),
    connect.rebuild_all_system_notifications(integer)
TO {role};
