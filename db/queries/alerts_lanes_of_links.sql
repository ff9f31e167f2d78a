-- The same as alerts_lanes of group links: organizations whose are due and have waited for too long.
-- Parameters: due_s double precision.
-- Rows: organization_id text, oldest text (job id), minutes int (since it was due), waiting bigint.
SELECT
    d.organization_id::text,
    (array_agg(d.id ORDER BY d.available_at, d.id))[1]::text,
    (extract(epoch FROM now() - min(d.available_at)) / 60)::integer,
    count(*)
FROM (
    SELECT q.id, q.organization_id, q.available_at
    FROM group_link_dispatch_queue q
    WHERE q.status = 'pending'
      AND q.available_at < now() - make_interval(secs => %(due_s)s)
      AND q.created_at >= (SELECT m.installed_at FROM rajada.meta m)
    ORDER BY q.available_at, q.id
    LIMIT 10000
) d
GROUP BY d.organization_id
ORDER BY d.organization_id
