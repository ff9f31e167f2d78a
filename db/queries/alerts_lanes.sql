-- Organizations with jobs that are due and have waited for too long, of the longest waiting ten thousand such;
-- paused ones, too. Parameters: kinds text[], due_s double precision.
-- Rows: organization_id text, oldest text (job id), minutes int (since it was due), waiting bigint.
SELECT
    d.organization_id::text,
    (array_agg(d.id ORDER BY d.run_after, d.id))[1]::text,
    (extract(epoch FROM now() - min(d.run_after)) / 60)::integer,
    count(*)
FROM (
    SELECT j.id, j.organization_id, j.run_after
    FROM job_queue j
    WHERE j.status = 'pending'
      AND j.kind = ANY (%(kinds)s::text[])
      AND j.run_after < now() - make_interval(secs => %(due_s)s)
      AND j.created_at >= (SELECT m.installed_at FROM rajada.meta m)
    ORDER BY j.run_after, j.id
    LIMIT 10000
) d
GROUP BY d.organization_id
ORDER BY d.organization_id
