-- Forget what a job that is done shows to be over: its organization's troubles of a kind, told before.
-- Rows that another sink or the pass is at are left to it.
-- Parameters: rows json: {organization_id, kind, at_ms}. No rows.
DELETE FROM rajada.troubles
WHERE (about, id, kind) IN (
    SELECT t.about, t.id, t.kind
    FROM json_to_recordset(%(rows)s::json) AS r (organization_id uuid, kind text, at_ms bigint)
    JOIN rajada.troubles t
      ON t.kind = r.kind AND t.organization_id = r.organization_id
     AND t.said_at <= to_timestamp(r.at_ms / 1000.0)
    FOR UPDATE OF t SKIP LOCKED
)
