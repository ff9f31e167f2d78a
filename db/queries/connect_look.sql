-- Look at a schedule, and leave a sign of life if a reconciler looks. The first look makes its row.
-- Parameters: schedule text, alive boolean (a sign). Rows: one, (now timestamptz, seed uuid, version bigint,
-- settled timestamptz or null, run_until timestamptz or null, waiting bigint: requests that nobody serves yet,
-- fired, skipped, missed bigint).
INSERT INTO connect.schedules AS s (name, looked_at, awake_since)
VALUES (
    %(schedule)s, CASE WHEN %(alive)s THEN clock_timestamp() END, CASE WHEN %(alive)s THEN clock_timestamp() END
)
ON CONFLICT (name) DO UPDATE SET
    looked_at = CASE WHEN %(alive)s THEN clock_timestamp() ELSE s.looked_at END,
    awake_since = CASE
        WHEN NOT %(alive)s OR s.looked_at > clock_timestamp() - interval '1 minute' THEN s.awake_since
        ELSE clock_timestamp()
    END
RETURNING
    clock_timestamp(), s.seed, s.version, s.settled, nullif(s.run_until, '-infinity'),
    (SELECT count(*) FROM connect.requests r WHERE r.schedule = s.name AND r.firing IS NULL),
    s.fired, s.skipped, s.missed
