-- Channel sessions that do not work, of those asked for (spec/jobs.md, "Lanes"; b156).
-- Parameters: sessions: uuid[].
-- Row: id text. A session works when its status is exactly WORKING; no status is none. One that is not there
--   has no row: whether a turn of a deleted channel makes sense is for the agent engine to say, and a job
--   that waited for it would wait for ever.
SELECT s.id::text
FROM channel_sessions s
WHERE s.id = ANY(%(sessions)s::uuid[]) AND s.status::text IS DISTINCT FROM 'WORKING'
