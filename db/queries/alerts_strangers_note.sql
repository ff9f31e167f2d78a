-- Note events that died by another system's hand. Their time is that of the alert which that system opened along
-- with it, if it did: within a minute.
-- Parameters: rows json, as for sink_troubles. No rows.
INSERT INTO rajada.troubles (
    about, id, kind, title, organization_id, body, ref_kind, ref_id, said_at, at
)
SELECT
    r.about, r.id, r.kind, r.title, (SELECT g.id FROM organizations g WHERE g.id = r.organization_id), r.body,
    r.ref_kind, r.ref_id, e.updated_at,
    coalesce(
        (
            SELECT max(i.created_at)
            FROM agent_inbox_items i
            WHERE i.organization_id = e.organization_id AND i.kind = r.kind AND i.title = r.title
              AND i.created_at BETWEEN e.updated_at - interval '1 minute' AND e.updated_at + interval '1 minute'
        ),
        e.updated_at
    )
FROM json_to_recordset(%(rows)s::json) AS r (
    about text, id text, kind text, title text, organization_id uuid, body text, ref_kind text, ref_id uuid
)
JOIN event_log e ON e.id = r.id::uuid
ON CONFLICT DO NOTHING
