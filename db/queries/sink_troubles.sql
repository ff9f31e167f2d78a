-- Note what alerts are about, with the time of this transaction, which is also the alerts': one row an event or
-- job and kind of alert. What is noted already is noted anew by a (replay, seq) above its own.
-- Parameters: rows json, one object a trouble, each once. No rows.
INSERT INTO rajada.troubles AS t (
    about, id, kind, title, organization_id, body, ref_kind, ref_id, replay, seq, said_at
)
SELECT
    r.about, r.id, r.kind, r.title, (SELECT g.id FROM organizations g WHERE g.id = r.organization_id),
    r.body, r.ref_kind, r.ref_id, coalesce(r.replay, 0), coalesce(r.seq, 0),
    to_timestamp(r.said_at_ms / 1000.0)
FROM json_to_recordset(%(rows)s::json) AS r (
    about text, id text, kind text, title text, organization_id uuid, body text, ref_kind text, ref_id uuid,
    replay bigint, seq bigint, said_at_ms bigint
)
ON CONFLICT (about, id, kind) DO UPDATE
SET title = excluded.title,
    organization_id = excluded.organization_id,
    body = excluded.body,
    ref_kind = excluded.ref_kind,
    ref_id = excluded.ref_id,
    replay = excluded.replay,
    seq = excluded.seq,
    said_at = excluded.said_at,
    at = excluded.at
WHERE (excluded.replay, excluded.seq) > (t.replay, t.seq)
