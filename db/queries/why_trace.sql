-- What happened to events and jobs, in order. Parameters: events (uuid[]), jobs (uuid[]), most (integer).
-- Rows: at timestamptz, organization_id, contact_id, conversation_id, message_id, event_id, job_id text,
--   replay, seq bigint, stage, status, outcome text, facts jsonb; the newest `most`, oldest first.
SELECT * FROM (
    SELECT
        t.at, t.organization_id::text, t.contact_id::text, t.conversation_id::text, t.message_id::text,
        t.event_id::text, t.job_id::text, t.replay, t.seq, t.stage, t.status, t.outcome, t.facts
    FROM rajada.trace t
    WHERE t.event_id = ANY (%(events)s::uuid[])
    UNION ALL
    SELECT
        t.at, t.organization_id::text, t.contact_id::text, t.conversation_id::text, t.message_id::text,
        t.event_id::text, t.job_id::text, t.replay, t.seq, t.stage, t.status, t.outcome, t.facts
    FROM rajada.trace t
    WHERE t.job_id = ANY (%(jobs)s::uuid[]) AND t.event_id IS NULL
    ORDER BY at DESC, replay DESC, seq DESC
    LIMIT %(most)s
) AS newest
ORDER BY at, replay, seq
