-- Prolong the lease of a run, and note how far it is. No row: the run was lost to another, and must stop.
-- Parameters: schedule text, firing uuid, lease_s double precision, reserved, moved, skipped, opened, resolved
-- bigint. Rows: one, (run_until timestamptz).
WITH ours AS (
    UPDATE connect.schedules s
    SET run_until = clock_timestamp() + make_interval(secs => %(lease_s)s)
    WHERE s.name = %(schedule)s AND s.firing = %(firing)s
    RETURNING s.run_until
),
noted AS (
    UPDATE connect.firings f
    SET reserved = %(reserved)s, moved = %(moved)s, skipped = %(skipped)s, opened = %(opened)s,
        resolved = %(resolved)s
    FROM ours
    WHERE f.id = %(firing)s AND f.state = 'running'
)
SELECT run_until FROM ours
