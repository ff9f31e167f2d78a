-- A token of the live page that is not revoked, by the part of it that is no secret.
-- Parameters: id text. Rows: at most one (name, role text, sees_phones boolean, organization_id uuid or null,
-- secret_sha256 bytea).
SELECT t.name, t.role, t.sees_phones, t.organization_id, t.secret_sha256
FROM rajada.page_tokens t
WHERE t.id = %(id)s AND t.revoked_at IS NULL
