-- End a run: its report, and the lease is over. No row: the run was lost to another meanwhile; nothing is written.
-- Parameters: schedule text, firing uuid, state text, reserved, moved, skipped, opened, resolved bigint,
-- facts text (JSON), error text or null. Rows: one, (ended_at timestamptz).
WITH ours AS (
    UPDATE connect.schedules s
    SET firing = NULL, run_until = clock_timestamp(), version = s.version + 1
    WHERE s.name = %(schedule)s AND s.firing = %(firing)s
    RETURNING s.run_until
)
UPDATE connect.firings f
SET state = %(state)s, ended_at = o.run_until, reserved = %(reserved)s, moved = %(moved)s,
    skipped = %(skipped)s, opened = %(opened)s, resolved = %(resolved)s, facts = %(facts)s::jsonb,
    error = %(error)s
FROM ours o
WHERE f.id = %(firing)s AND f.state = 'running'
RETURNING f.ended_at
