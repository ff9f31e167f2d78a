-- Whether a reconciler looks at its schedule, what the schedule has counted, and how the newest run ended.
-- Parameters: schedule text. Rows: at most one (silent_s double precision: since the last look, null before the
-- first one; fired, skipped, missed bigint; state, error text or null; began_s double precision or null: since
-- that run began; open bigint: notifications).
SELECT extract(epoch FROM clock_timestamp() - s.looked_at)::double precision, s.fired, s.skipped, s.missed,
    f.state, f.error, extract(epoch FROM clock_timestamp() - f.began_at)::double precision,
    (SELECT count(*) FROM connect.active_notifications)
FROM connect.schedules s
LEFT JOIN LATERAL (
    SELECT o.state, o.error, o.began_at FROM connect.firings o
    WHERE o.schedule = s.name
    ORDER BY o.began_at DESC
    LIMIT 1
) f ON true
WHERE s.name = %(schedule)s
