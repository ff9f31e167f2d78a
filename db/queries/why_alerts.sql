-- Inbox items about events and jobs: those that name one of them, and those that cover what is wrong with one.
-- Parameters: ids (text[]: UUIDs), kinds (text[]: of our alerts). Rows: id, title, status text,
--   occurrences bigint, created_at, resolved_at timestamptz; in order.
SELECT i.id::text, i.title, i.status::text, i.occurrences, i.created_at, i.resolved_at
FROM agent_inbox_items i
WHERE i.kind = ANY (%(kinds)s::text[])
  AND (
      i.ref_id = ANY (%(ids)s::uuid[])
      OR EXISTS (
          SELECT FROM rajada.troubles t
          WHERE t.about IN ('event', 'job') AND t.id = ANY (%(ids)s::text[])
            AND t.kind = i.kind AND t.title = i.title
            AND t.organization_id IS NOT DISTINCT FROM i.organization_id
            AND t.at BETWEEN i.created_at AND coalesce(i.last_seen_at, i.created_at)
      )
  )
ORDER BY i.created_at, i.id
