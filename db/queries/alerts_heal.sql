-- Forget the troubles that are over (spec/jobs.md, "Alerts"). A dead event or job is, when it is dead no more (it
-- was requeued) or was dropped by a person. A job that waited is, when it ended, when its session works again, or,
-- where nobody knew whether it was done, when it is held no more. Where there is no row the trace tells.
-- A dead outcome is, when a person has resolved its alert. What others are writing now is left for the next time.
-- No parameters. Rows: one, (healed bigint).
WITH found AS (
    SELECT t.*, CASE WHEN t.about <> 'condition' THEN t.id::uuid END AS uuid
    FROM rajada.troubles t
),
over AS MATERIALIZED (
    SELECT t.about, t.id, t.kind
    FROM found t
    WHERE CASE
        WHEN t.about = 'condition' AND t.kind = 'outcome_dead' THEN (
            SELECT bool_and(i.status::text = 'resolved')
            FROM agent_inbox_items i
            WHERE i.organization_id IS NULL AND i.kind = t.kind AND i.title = t.title
              AND t.at BETWEEN i.created_at AND coalesce(i.last_seen_at, i.created_at)
        )
        WHEN t.about = 'condition' THEN t.ends_at < now()
        WHEN t.kind IN ('event_dead', 'job_dead') THEN EXISTS (
            SELECT FROM rajada.dropped d WHERE d.id = t.uuid AND d.kind = t.about AND d.replay >= t.replay
        ) OR CASE t.about
            WHEN 'event' THEN coalesce(
                (SELECT e.status::text <> 'dead' FROM event_log e WHERE e.id = t.uuid),
                EXISTS (
                    SELECT FROM rajada.trace o
                    WHERE o.event_id = t.uuid AND o.at >= t.said_at - interval '1 day'
                      AND (o.replay, o.seq) > (t.replay, t.seq) AND o.status <> 'dead'
                )
            )
            ELSE coalesce(
                (SELECT j.status::text <> 'dead' FROM job_queue j WHERE j.id = t.uuid),
                EXISTS (
                    SELECT FROM rajada.trace o
                    WHERE o.job_id = t.uuid AND o.event_id IS NULL AND o.at >= t.said_at - interval '1 day'
                      AND (o.replay, o.seq) > (t.replay, t.seq) AND o.status <> 'dead'
                )
            )
        END
        ELSE EXISTS (
            SELECT FROM rajada.trace o
            WHERE o.job_id = t.uuid AND o.event_id IS NULL AND o.at >= t.said_at - interval '1 day'
              AND (o.replay, o.seq) > (t.replay, t.seq)
              AND (o.status IN ('done', 'failed', 'dead')
                   OR (t.kind = 'job_unknown_outcome' AND o.status <> 'held'))
        ) OR (
            t.kind = 'session_not_working' AND EXISTS (
                SELECT FROM channel_sessions s WHERE s.id = t.ref_id AND s.status::text = 'WORKING'
            )
        )
    END
),
taken AS (
    SELECT t.about, t.id, t.kind
    FROM rajada.troubles t
    JOIN over o USING (about, id, kind)
    FOR UPDATE OF t SKIP LOCKED
),
gone AS (
    DELETE FROM rajada.troubles t USING taken o
    WHERE t.about = o.about AND t.id = o.id AND t.kind = o.kind
    RETURNING 1
)
SELECT count(*) FROM gone
