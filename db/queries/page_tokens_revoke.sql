-- Revoke a token of the live page; one that is revoked stays as it is.
-- Parameters: id, revoked_by text. Rows: one (revoked_at timestamptz), none when there is no such token.
UPDATE rajada.page_tokens t
SET revoked_at = coalesce(t.revoked_at, now()), revoked_by = coalesce(t.revoked_by, %(revoked_by)s)
WHERE t.id = %(id)s
RETURNING t.revoked_at
