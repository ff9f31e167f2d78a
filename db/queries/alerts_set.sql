-- What a person did with an alert of ours: acknowledged it, or resolved it. One that is further stays as it is.
-- Parameters: id (uuid), kinds (text[]: ours), status (text: ack or resolved),
-- organization_id (uuid: only one of this organization; null = whosever).
-- Rows: none when there is no such alert, else one of (title text, was text, status text).
WITH found AS (
    SELECT i.id, i.title, i.status::text AS was
    FROM agent_inbox_items i
    WHERE i.id = %(id)s::uuid AND i.kind = ANY (%(kinds)s::text[])
      AND (%(organization_id)s::uuid IS NULL OR i.organization_id = %(organization_id)s::uuid)
    FOR UPDATE
),
changed AS (
    UPDATE agent_inbox_items i
    SET status = %(status)s,
        resolved_at = CASE WHEN %(status)s = 'resolved' THEN now() ELSE i.resolved_at END
    FROM found f
    WHERE i.id = f.id AND (f.was = 'open' OR (f.was = 'ack' AND %(status)s = 'resolved'))
    RETURNING i.id
)
SELECT f.title, f.was, CASE WHEN EXISTS (SELECT FROM changed) THEN %(status)s::text ELSE f.was END
FROM found f
