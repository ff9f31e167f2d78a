-- What an old drain made of events. Parameters: ids (uuid[]); reason (text): under which name of `metadata` it notes
--   why it made no job.
-- Rows: id, status text, created_ms, decided_ms float8 (when the row was last touched), reason text or null,
--   by_rajada bool (a sink of ours wrote it).
SELECT
    e.id::text,
    e.status::text,
    extract(epoch FROM e.created_at)::float8 * 1000 AS created_ms,
    extract(epoch FROM greatest(e.updated_at, e.created_at))::float8 * 1000 AS decided_ms,
    coalesce(nullif(e.metadata ->> %(reason)s::text, ''), e.outcome) AS reason,
    e.outcome_seq IS NOT NULL AS by_rajada
FROM event_log e
WHERE e.id = ANY (%(ids)s::uuid[])
