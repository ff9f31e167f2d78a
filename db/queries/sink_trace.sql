-- Write what happened to events and jobs; what stands there already (an outcome sent twice) is left out.
-- An outcome that doesn't name the message and the conversation leaves them to the event's own row.
-- Parameters: rows json, one object an event or a job. Rows: n int, the records with something new.
WITH told AS MATERIALIZED (
    SELECT r.*, to_timestamp(r.at_ms / 1000.0) AS at
    FROM json_to_recordset(%(rows)s::json) AS r (
        n integer, at_ms bigint, organization_id uuid, contact_id uuid, conversation_id uuid, message_id uuid,
        event_id uuid, job_id uuid, replay bigint, seq bigint, stage text, status text, outcome text, facts text
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
              AND o.stage = t.stage AND o.outcome IS NOT DISTINCT FROM t.outcome AND o.event_id IS NULL
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
        f.at, f.organization_id, f.contact_id, coalesce(f.conversation_id, i.conversation_id),
        coalesce(f.message_id, i.message_id), f.event_id, f.job_id, f.replay, f.seq, f.stage, f.status, f.outcome,
        f.facts::jsonb
    FROM fresh f
    LEFT JOIN LATERAL (
        SELECT
            CASE WHEN e.payload ->> 'conversation_id' ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                THEN (e.payload ->> 'conversation_id')::uuid
            END AS conversation_id,
            CASE WHEN e.payload ->> 'inbound_message_id' ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$'
                THEN (e.payload ->> 'inbound_message_id')::uuid
            END AS message_id
        FROM event_log e
        WHERE (f.conversation_id IS NULL OR f.message_id IS NULL)
          AND e.id = f.event_id
          AND e.organization_id = f.organization_id
    ) i ON true
)
SELECT DISTINCT f.n FROM fresh f
