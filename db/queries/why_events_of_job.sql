-- The events of a job. Parameters: id (uuid). Rows: event_id text.
SELECT t.event_id::text FROM rajada.trace t WHERE t.job_id = %(id)s::uuid AND t.event_id IS NOT NULL
UNION
SELECT lower(named.event_id)
FROM job_queue j
CROSS JOIN LATERAL (
    SELECT j.source_event_id::text AS event_id WHERE j.source_event_id IS NOT NULL
    UNION ALL
    SELECT jsonb_array_elements_text(j.payload -> 'event_ids')
    WHERE jsonb_typeof(j.payload -> 'event_ids') = 'array'
) AS named
WHERE j.id = %(id)s::uuid
