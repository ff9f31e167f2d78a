-- Give dead letters up: close those that are open and write down who gave up what, and why.
-- Parameters: topic_id, topic (text), dropped_by, reason (text), rows (json): one object a letter
--   {partition, offset, about, kind, organization_id, replay}. No rows.
WITH told AS (
    SELECT r.*
    FROM json_to_recordset(%(rows)s::json) AS r (
        partition integer, "offset" bigint, about uuid, kind text, organization_id uuid, replay bigint
    )
),
closed AS (
    INSERT INTO rajada.closed_letters (topic_id, topic, partition, "offset", how, about, closed_by)
    SELECT %(topic_id)s, %(topic)s, t.partition, t."offset", 'dropped', t.about, %(dropped_by)s FROM told t
    ON CONFLICT DO NOTHING
    RETURNING partition, "offset"
)
INSERT INTO rajada.dropped (
    kind, id, organization_id, replay, reason, dropped_by, topic, partition, "offset"
)
SELECT t.kind, t.about, t.organization_id, t.replay, %(reason)s, %(dropped_by)s, %(topic)s, t.partition, t."offset"
FROM told t
JOIN closed c ON c.partition = t.partition AND c."offset" = t."offset"
