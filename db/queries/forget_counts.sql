-- What our tables and the CRM's hold of a contact. Parameters: id (uuid or null); events, jobs (uuid[]): its group
-- links, which the trace knows by these ids alone.
-- Rows: traces, events, jobs, open_jobs bigint, last_at timestamptz (the last that happened), one row.
WITH told AS (
    SELECT t.event_id, t.at FROM rajada.trace t WHERE t.contact_id = %(id)s::uuid
    UNION ALL
    SELECT t.event_id, t.at
    FROM rajada.trace t
    WHERE t.event_id = ANY (%(events)s::uuid[]) AND coalesce(t.contact_id <> %(id)s::uuid, true)
      AND (t.facts IS NOT NULL OR t.message_id IS NOT NULL)
    UNION ALL
    SELECT t.event_id, t.at
    FROM rajada.trace t
    WHERE t.job_id = ANY (%(jobs)s::uuid[]) AND coalesce(t.contact_id <> %(id)s::uuid, true)
      AND (t.event_id IS NULL OR t.event_id <> ALL (%(events)s::uuid[]))
      AND (t.facts IS NOT NULL OR t.message_id IS NOT NULL)
)
SELECT
    (SELECT count(*) FROM told),
    (SELECT count(DISTINCT t.event_id) FROM told t),
    (SELECT count(*) FROM job_queue j WHERE j.contact_id = %(id)s::uuid),
    (SELECT count(*) FROM job_queue j WHERE j.contact_id = %(id)s::uuid AND j.status IN ('pending', 'running')),
    (SELECT max(t.at) FROM told t)
