-- Bearer tokens, newest first; nothing secret.
-- Parameters: organization_id uuid (null = of all), revoked boolean (these, too).
-- Rows: id text, organization_id uuid, name text, made_by text, made_at, revoked_at timestamptz.
SELECT t.id, t.organization_id, t.name, t.made_by, t.made_at, t.revoked_at
FROM rajada.tokens t
WHERE (%(organization_id)s::uuid IS NULL OR t.organization_id = %(organization_id)s)
  AND (%(revoked)s OR t.revoked_at IS NULL)
ORDER BY t.made_at DESC, t.id
