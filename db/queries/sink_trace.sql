-- Write what happened to events and jobs; what stands there already (an outcome sent twice) is left out.
-- The message and the conversation are taken from the event's own row where it has one.
-- Parameters: rows json, one object an event or a job. Rows: n int, the records with something new.
WITH told AS MATERIALIZED (
    SELECT r.*, to_timestamp(r.at_ms / 1000.0) AS at
    FROM json_to_recordset(%(rows)s::json) AS r (
        n integer, at_ms bigint, organization_id uuid, contact_id uuid, conversation_id text, message_id text,
        event_id uuid, job_id uuid, replay bigint, seq bigint, stage text, status text, outcome text,
        attempts integer, last_error text, next_attempt_at_ms bigint, facts text
    )
),
fresh AS MATERIALIZED (
    SELECT t.*
    FROM told t
    WHERE CASE
        WHEN t.event_id IS NOT NULL THEN NOT EXISTS (
            SELECT FROM rajada.trace o
            WHERE o.event_id = t.event_id AND o.at = t.at AND o.replay = t.replay AND o.seq = t.seq
              AND o.stage = t.stage AND o.outcome IS NOT DISTINCT FROM t.outcome
        )
        WHEN t.job_id IS NOT NULL THEN NOT EXISTS (
            SELECT FROM rajada.trace o
            WHERE o.job_id = t.job_id AND o.at = t.at AND o.replay = t.replay AND o.seq = t.seq
              AND o.stage = t.stage AND o.event_id IS NULL
        )
        ELSE true
    END
),
written AS (
    INSERT INTO rajada.trace (
        at, organization_id, contact_id, conversation_id, message_id, event_id, job_id, replay, seq, stage,
        status, outcome, facts
    )
    SELECT
        f.at, f.organization_id, f.contact_id,
        CASE WHEN i.conversation ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN i.conversation::uuid END,
        CASE WHEN i.message ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN i.message::uuid END,
        f.event_id, f.job_id, f.replay, f.seq, f.stage, f.status, f.outcome,
        nullif(
            coalesce(f.facts::jsonb, '{}') || jsonb_strip_nulls(jsonb_build_object(
                'attempts', f.attempts,
                'last_error', f.last_error,
                'next_attempt_at_ms', f.next_attempt_at_ms
            )),
            '{}'
        )
    FROM fresh f
    LEFT JOIN event_log e ON e.id = f.event_id AND e.organization_id = f.organization_id
    CROSS JOIN LATERAL (
        SELECT
            coalesce(e.payload ->> 'conversation_id', f.conversation_id) AS conversation,
            coalesce(e.payload ->> 'inbound_message_id', f.message_id) AS message
    ) AS i
)
SELECT DISTINCT f.n FROM fresh f
