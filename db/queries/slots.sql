-- Replication slots, and how far their readers are behind.
-- Parameters: slot (text: this one, whosesoever; null: the logical ones of this database).
-- Rows: slot text, plugin text, database text, active boolean, wal_status text or null, confirmed_flush bigint or
-- null, retained_bytes bigint, lag_bytes bigint; by name.
SELECT
    s.slot_name::text,
    s.plugin::text,
    s.database::text,
    s.active,
    s.wal_status,
    (s.confirmed_flush_lsn - '0/0'::pg_lsn)::bigint,
    greatest(coalesce(at.lsn - s.restart_lsn, 0), 0)::bigint,
    greatest(coalesce(at.lsn - s.confirmed_flush_lsn, 0), 0)::bigint
FROM pg_replication_slots s
CROSS JOIN LATERAL (
    SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END AS lsn
) at
WHERE s.slot_name = %(slot)s OR (%(slot)s::text IS NULL AND s.database = current_database())
ORDER BY s.slot_name
