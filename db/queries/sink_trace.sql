-- Write what happened to events and jobs; what stands there already (an outcome sent twice) is left out.
-- An outcome that doesn't name the message and the conversation leaves them to the event's own row.
-- An event that a window answers under the id of another contact's job is told as deduplicated, as stop 0 would
-- have told it a moment later; what else is told of that job under this contact says so. (One id for events of
-- two contacts, made by hand, in partitions of two workers at once: the job's row is the first one's.)
-- Parameters: rows json, one object an event or a job. Rows: n int, the records with something new.
WITH told AS MATERIALIZED (
    SELECT
        r.n, to_timestamp(r.at_ms / 1000.0) AS at, r.organization_id, r.contact_id, r.conversation_id,
        r.message_id, r.event_id, CASE WHEN o.owns THEN NULL ELSE r.job_id END AS job_id, r.replay, r.seq,
        r.stage, r.status, CASE WHEN o.owns THEN 'deduplicated' ELSE r.outcome END AS outcome,
        CASE
            WHEN o.owns IS NULL THEN r.facts::jsonb
            WHEN o.owns THEN coalesce(r.facts::jsonb, '{}') || jsonb_build_object(
                'of_another_contact', jsonb_build_array(r.event_id), 'jobs', jsonb_build_object(r.event_id, r.job_id)
            )
            ELSE coalesce(r.facts::jsonb, '{}') || '{"of_another_contact": true}'
        END AS facts
    FROM json_to_recordset(%(rows)s::json) AS r (
        n integer, at_ms bigint, organization_id uuid, contact_id uuid, conversation_id uuid, message_id uuid,
        event_id uuid, job_id uuid, replay bigint, seq bigint, stage text, status text, outcome text, facts text
    )
    LEFT JOIN LATERAL (
        -- the job's row is another contact's; owns: and so is the event
        SELECT coalesce(
            r.outcome = 'job'
            AND (j.source_event_id = r.event_id OR j.payload -> 'event_ids' ? r.event_id::text), false
        ) AS owns
        FROM job_queue j
        WHERE j.id = r.job_id AND (j.organization_id = r.organization_id) IS TRUE AND j.contact_id <> r.contact_id
          AND coalesce(j.payload ->> 'contact_id', '') <> r.contact_id::text
        LIMIT 1
    ) o ON true
),
fresh AS MATERIALIZED (
    SELECT t.*
    FROM told t
    WHERE CASE
        WHEN t.event_id IS NOT NULL THEN NOT EXISTS (
            SELECT FROM rajada.trace o
            WHERE o.event_id = t.event_id AND o.at = t.at AND o.replay = t.replay AND o.seq = t.seq
              AND o.stage = t.stage AND o.outcome IS NOT DISTINCT FROM t.outcome
              -- what was forgotten names nobody
              AND (o.contact_id = t.contact_id) IS NOT FALSE
        )
        WHEN t.job_id IS NOT NULL THEN NOT EXISTS (
            SELECT FROM rajada.trace o
            WHERE o.job_id = t.job_id AND o.at = t.at AND o.replay = t.replay AND o.seq = t.seq
              AND o.stage = t.stage AND o.outcome IS NOT DISTINCT FROM t.outcome AND o.event_id IS NULL
              AND (o.contact_id = t.contact_id) IS NOT FALSE
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
        f.facts
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
          AND (e.organization_id = f.organization_id) IS TRUE
    ) i ON true
)
SELECT DISTINCT f.n FROM fresh f
