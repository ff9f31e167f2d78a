-- Runs, newest first: the last ones, or the one that serves a request.
-- Parameters: schedule text, request uuid or null, most int. Rows: id text, tick timestamptz or null, kind text,
-- owner text, began_at timestamptz, ended_at timestamptz or null, state text, reserved, moved, skipped, opened,
-- resolved bigint, facts text (JSON), error text or null, took_s double precision (until now, if it goes on).
SELECT
    f.id::text, f.tick, f.kind, f.owner, f.began_at, f.ended_at, f.state, f.reserved, f.moved, f.skipped,
    f.opened, f.resolved, f.facts::text, f.error,
    extract(epoch FROM coalesce(f.ended_at, clock_timestamp()) - f.began_at)::double precision
FROM connect.firings f
WHERE f.schedule = %(schedule)s
  AND (%(request)s::uuid IS NULL
       OR f.id = (SELECT r.firing FROM connect.requests r WHERE r.id = %(request)s::uuid))
ORDER BY f.began_at DESC
LIMIT %(most)s
