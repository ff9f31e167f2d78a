-- A bearer token that is not revoked, by the part of it that is no secret.
-- Parameters: id text. Rows: at most one (organization_id uuid, secret_sha256 bytea).
SELECT t.organization_id, t.secret_sha256 FROM rajada.tokens t WHERE t.id = %(id)s AND t.revoked_at IS NULL
