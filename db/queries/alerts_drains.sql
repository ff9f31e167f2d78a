-- Organizations with events that are due and have stayed pending for too long, of the oldest ten thousand such.
-- Parameters: event_types text[], due_s double precision. Rows: organization_id text, oldest text (event id),
-- minutes int (since it was due), waiting bigint.
SELECT
    o.organization_id::text,
    (array_agg(o.id ORDER BY o.created_at, o.id))[1]::text,
    (extract(epoch FROM now() - min(o.due)) / 60)::integer,
    count(*)
FROM (
    SELECT e.id, e.organization_id, e.created_at, greatest(e.created_at, e.next_attempt_at) AS due
    FROM event_log e
    WHERE e.status = 'pending'
      AND e.event_type::text = ANY (%(event_types)s::text[])
      AND e.organization_id IS NOT NULL
      AND e.created_at >= (SELECT m.installed_at FROM rajada.meta m)
      AND greatest(e.created_at, e.next_attempt_at) < now() - make_interval(secs => %(due_s)s)
    ORDER BY e.created_at, e.id
    LIMIT 10000
) o
GROUP BY o.organization_id
ORDER BY o.organization_id
