-- Take a firing: its row and the run's lease in one statement, so that no process can be interrupted in between.
-- Nothing happens if the schedule is not as it was seen, or if a run goes on. A run whose lease ended is lost.
-- Parameters: schedule text, version bigint (as seen; null = whatever it is), firing uuid (new), tick timestamptz
-- or null, settled timestamptz or null (as it stays), kind text, owner text, lease_s double precision,
-- skipped bigint, missed bigint. Rows: one if it was taken, (began_at timestamptz).
WITH taken AS (
    UPDATE connect.schedules s
    SET version = s.version + 1,
        settled = coalesce(%(settled)s::timestamptz, s.settled),
        firing = %(firing)s,
        run_until = clock_timestamp() + make_interval(secs => %(lease_s)s),
        fired = s.fired + 1,
        skipped = s.skipped + %(skipped)s,
        missed = s.missed + %(missed)s
    WHERE s.name = %(schedule)s
      AND s.version = coalesce(%(version)s::bigint, s.version)
      AND s.run_until <= clock_timestamp()
    RETURNING s.name
),
lost AS (
    UPDATE connect.firings f
    SET state = 'lost', ended_at = clock_timestamp()
    FROM taken t
    WHERE f.schedule = t.name AND f.state = 'running'
),
served AS (
    UPDATE connect.requests r
    SET firing = %(firing)s
    FROM taken t
    WHERE r.schedule = t.name AND r.firing IS NULL
)
INSERT INTO connect.firings (id, schedule, tick, kind, owner)
SELECT %(firing)s, t.name, %(tick)s::timestamptz, %(kind)s, %(owner)s
FROM taken t
RETURNING began_at
