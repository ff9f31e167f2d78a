-- Resolve alerts of ours of which nothing lasts any more: no trouble of the family from between their opening and
-- the last time they were counted up.
-- Parameters: kinds, titles text[] (same length): the families. Rows: id text, organization_id text or null, kind.
UPDATE agent_inbox_items i
SET status = 'resolved', resolved_at = now()
FROM unnest(%(kinds)s::text[], %(titles)s::text[]) AS f (kind, title)
WHERE i.kind = f.kind
  AND i.title = f.title
  AND i.status IN ('open', 'ack')
  AND NOT EXISTS (
      SELECT FROM rajada.troubles t
      WHERE t.kind = i.kind AND t.title = i.title
        AND t.organization_id IS NOT DISTINCT FROM i.organization_id
        AND t.at BETWEEN i.created_at AND coalesce(i.last_seen_at, i.created_at)
  )
RETURNING i.id::text, i.organization_id::text, i.kind
