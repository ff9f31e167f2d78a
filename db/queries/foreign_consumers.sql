-- Who else works on our events and jobs. We never write `processing`, all that our sink wrote has an
-- outcome_seq, and what our lanes run is locked under our name: everything else is another's.
-- Parameters: event_types (text[]), job_kinds (text[]), us (text), and for how long (float8, seconds) a sign
--   counts as fresh: events_s, jobs_s, made_s.
-- Rows, one a (what, who, fresh): what text (`event`: being processed; `job`: running; `made`: pending, made
--   from an event by another), who text or null (unknown), fresh bool, n bigint, newest_age_s float8 (of the
--   youngest sign).
WITH signs AS (
    SELECT
        'event' AS what,
        e.consumed_by[array_upper(e.consumed_by, 1)] AS who,
        coalesce(greatest(e.updated_at, e.created_at), '-infinity') AS at,
        %(events_s)s::float8 AS fresh_s
    FROM event_log e
    WHERE e.status = 'processing' AND e.event_type::text = ANY (%(event_types)s::text[])
    UNION ALL
    SELECT 'job', j.locked_by, coalesce(j.locked_at, j.created_at, '-infinity'), %(jobs_s)s::float8
    FROM job_queue j
    WHERE j.status = 'running' AND j.kind::text = ANY (%(job_kinds)s::text[])
      AND j.locked_by IS DISTINCT FROM %(us)s::text
    UNION ALL
    SELECT 'made', NULL, coalesce(j.created_at, '-infinity'), %(made_s)s::float8
    FROM job_queue j
    WHERE j.status = 'pending' AND j.kind::text = ANY (%(job_kinds)s::text[])
      AND j.outcome_seq IS NULL AND j.source_event_id IS NOT NULL
)
SELECT
    s.what, s.who, s.at > now() - s.fresh_s * interval '1 second' AS fresh, count(*) AS n,
    -- minutes of clock or transaction time ahead of us are no age
    greatest(0, least(extract(epoch FROM now()) - extract(epoch FROM max(s.at)), 1e9))::float8 AS newest_age_s
FROM signs s
GROUP BY 1, 2, 3
ORDER BY 1, 3 DESC, 4 DESC, 2
