-- Tokens of the live page, newest first; nothing secret.
-- Parameters: organization_id uuid (null = whoever's), revoked boolean (these, too).
-- Rows: id, name, role text, sees_phones boolean, organization_id uuid or null, made_by text, made_at,
-- revoked_at timestamptz.
SELECT t.id, t.name, t.role, t.sees_phones, t.organization_id, t.made_by, t.made_at, t.revoked_at
FROM rajada.page_tokens t
WHERE (%(organization_id)s::uuid IS NULL OR t.organization_id = %(organization_id)s)
  AND (%(revoked)s OR t.revoked_at IS NULL)
ORDER BY t.made_at DESC, t.id
