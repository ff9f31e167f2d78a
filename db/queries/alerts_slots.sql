-- The replication slots that the event log is published from: those of this database, and ours and a connector's
-- if they are gone.
-- Parameters: slot text (ours). Rows: slot text, wal_status text (`absent` = gone), retained bigint (bytes),
-- keep_mb bigint (after so much WAL the server gives the slot up; -1 = never).
WITH slots AS (
    SELECT
        s.slot_name::text AS name, coalesce(s.wal_status, 'reserved') AS wal_status,
        greatest(coalesce(pg_current_wal_lsn() - s.restart_lsn, 0), 0)::bigint AS retained
    FROM pg_replication_slots s
    WHERE s.database = current_database() AND s.plugin = 'pgoutput'
),
gone AS (
    SELECT r.slot, 'absent', 0::bigint
    FROM rajada.relay r
    WHERE r.slot = %(slot)s AND r.slots_made > 0 AND NOT EXISTS (SELECT FROM slots)
    UNION ALL
    SELECT h.slot, 'absent', 0::bigint
    FROM rajada.heartbeats h
    WHERE h.slot <> %(slot)s AND NOT EXISTS (SELECT FROM slots s WHERE s.name = h.slot)
)
SELECT a.name, a.wal_status, a.retained, (
    SELECT p.setting::bigint FROM pg_settings p WHERE p.name = 'max_slot_wal_keep_size'
)
FROM (SELECT * FROM slots UNION ALL SELECT * FROM gone) a
ORDER BY a.name
