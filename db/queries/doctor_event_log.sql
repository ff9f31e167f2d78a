-- The event log as a published table. Parameters: table (text, found by the search path), trigger (text).
-- Rows: none when there is no such table, else one of (replica_identity text: d, n, f or i; has_key bool;
-- trigger_state text or null: O fires, D is off, R and A fire for replicas; owns bool: may publish it).
SELECT
    c.relreplident::text,
    EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.oid AND i.indisprimary),
    (SELECT t.tgenabled::text FROM pg_trigger t WHERE t.tgrelid = c.oid AND t.tgname = %(trigger)s),
    pg_has_role(current_user, c.relowner, 'member')
        AND has_database_privilege(current_database(), 'CREATE')
FROM pg_class c
WHERE c.oid = to_regclass(%(table)s);
