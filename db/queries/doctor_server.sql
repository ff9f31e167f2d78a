-- What a publisher needs of the server and of our role.
-- Rows: one of (wal_level text, in_recovery bool, max_slots int, used_slots bigint, max_senders int,
-- used_senders bigint, slot_keep_mb int (-1 = without bound), role text, may_replicate bool, other text or null:
-- another role that may and reads the log).
SELECT
    current_setting('wal_level'),
    pg_is_in_recovery(),
    current_setting('max_replication_slots')::integer,
    (SELECT count(*) FROM pg_replication_slots),
    current_setting('max_wal_senders')::integer,
    (SELECT count(*) FROM pg_stat_replication),
    (SELECT setting::integer FROM pg_settings WHERE name = 'max_slot_wal_keep_size'),
    current_user::text,
    EXISTS (
        SELECT FROM pg_roles r
        -- hosted servers give the right by a role of theirs
        WHERE (r.rolname = current_user AND (r.rolsuper OR r.rolreplication))
           OR (r.rolname IN ('rds_replication', 'rds_superuser', 'cloudsqlsuperuser', 'azure_pg_admin')
               AND pg_has_role(current_user, r.oid, 'member'))
    ),
    (
        SELECT min(r.rolname)::text FROM pg_roles r
        WHERE r.rolcanlogin AND r.rolreplication AND NOT r.rolsuper AND r.rolname <> current_user
          AND has_table_privilege(r.oid, to_regclass('event_log'), 'SELECT')
    );
