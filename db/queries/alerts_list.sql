-- Our alerts, the last seen first. Parameters: kinds (text[]: ours), statuses (text[]), organizations (uuid[];
-- null = all, the platform's among them), most (integer).
-- Rows: id, organization_id text (null = the platform's), kind, title, body, ref_kind, ref_id, status text,
--   occurrences bigint, created_at, last_seen_at, resolved_at timestamptz.
SELECT
    i.id::text, i.organization_id::text, i.kind, i.title, coalesce(i.body, '') AS body, i.ref_kind,
    i.ref_id::text, i.status::text, i.occurrences, i.created_at, i.last_seen_at, i.resolved_at
FROM agent_inbox_items i
WHERE i.kind = ANY (%(kinds)s::text[])
  AND i.status::text = ANY (%(statuses)s::text[])
  AND (%(organizations)s::uuid[] IS NULL OR i.organization_id = ANY (%(organizations)s))
ORDER BY coalesce(i.last_seen_at, i.created_at) DESC, i.id
LIMIT %(most)s
