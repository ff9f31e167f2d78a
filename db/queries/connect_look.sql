-- Look at a schedule, and leave a sign of life. The first look makes its row.
-- Parameters: schedule text. Rows: one, (now timestamptz, seed uuid, version bigint, settled timestamptz or null,
-- run_until timestamptz or null, waiting bigint: requests that nobody serves yet, fired, skipped, missed bigint).
INSERT INTO connect.schedules AS s (name, looked_at)
VALUES (%(schedule)s, clock_timestamp())
ON CONFLICT (name) DO UPDATE SET looked_at = clock_timestamp()
RETURNING
    clock_timestamp(), s.seed, s.version, s.settled, nullif(s.run_until, '-infinity'),
    (SELECT count(*) FROM connect.requests r WHERE r.schedule = s.name AND r.firing IS NULL),
    s.fired, s.skipped, s.missed
