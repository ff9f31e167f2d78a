-- Note conditions of the machine room that last, or that go on: then only for how long it counts is new.
-- Parameters: rows json, one object a condition, each once. Rows: id text, organization_id text or null (also
-- where there is no such organization), those that are new; null otherwise.
INSERT INTO rajada.troubles AS t (
    about, id, kind, title, organization_id, body, ref_kind, ref_id, said_at, ends_at
)
SELECT
    r.about, r.id, r.kind, r.title, (SELECT g.id FROM organizations g WHERE g.id = r.organization_id), r.body,
    r.ref_kind, r.ref_id, to_timestamp(r.said_at_ms / 1000.0), now() + make_interval(secs => r.lasts_s)
FROM json_to_recordset(%(rows)s::json) AS r (
    about text, id text, kind text, title text, organization_id uuid, body text, ref_kind text, ref_id uuid,
    said_at_ms bigint, lasts_s double precision
)
ON CONFLICT (about, id, kind) DO UPDATE
SET ends_at = excluded.ends_at, body = excluded.body
RETURNING CASE WHEN t.xmax = 0 THEN t.id END, t.organization_id::text
