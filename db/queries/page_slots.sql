-- Logical replication slots of this database, and how far their readers are behind.
-- No parameters. Rows: name text, active boolean, wal_status text or null, retained_bytes, lag_bytes bigint.
SELECT
    s.slot_name::text,
    s.active,
    s.wal_status,
    greatest(coalesce(at.lsn - s.restart_lsn, 0), 0)::bigint,
    greatest(coalesce(at.lsn - s.confirmed_flush_lsn, 0), 0)::bigint
FROM pg_replication_slots s
CROSS JOIN LATERAL (
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS lsn
) at
WHERE s.database = current_database()
ORDER BY s.slot_name
