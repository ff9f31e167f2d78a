-- Organizations with group links that are due and have waited for too long, of the longest waiting ten thousand such;
-- those that a person has paused wait for that person. Parameters: due_s double precision.
-- Rows: organization_id text, oldest text (job id), minutes int (since it was due), waiting bigint.
WITH orders AS (
    SELECT DISTINCT ON (o.organization_id) o.organization_id, o.action
    FROM rajada.orders o
    WHERE o.action IN ('pause', 'resume')
    ORDER BY o.organization_id, o.at DESC
)
SELECT
    d.organization_id::text,
    (array_agg(d.id ORDER BY d.run_after, d.id))[1]::text,
    (extract(epoch FROM now() - min(d.run_after)) / 60)::integer,
    count(*)
FROM (
    SELECT q.id, q.organization_id, q.available_at AS run_after
    FROM group_link_dispatch_queue q
    WHERE q.status = 'pending'
      AND q.available_at < now() - make_interval(secs => %(due_s)s)
      AND q.created_at >= (SELECT m.installed_at FROM rajada.meta m)
    ORDER BY q.available_at, q.id
    LIMIT 10000
) d
WHERE NOT EXISTS (
    SELECT FROM orders o
    WHERE o.action = 'pause' AND (o.organization_id IS NULL OR o.organization_id = d.organization_id)
)
GROUP BY d.organization_id
ORDER BY d.organization_id
