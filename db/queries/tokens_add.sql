-- Note a new bearer token, if there is such an organization.
-- Parameters: id text, organization_id uuid, name text, secret_sha256 bytea, made_by text.
-- Rows: one (id text), none without the organization.
INSERT INTO rajada.tokens (id, organization_id, name, secret_sha256, made_by)
SELECT %(id)s, o.id, %(name)s, %(secret_sha256)s, %(made_by)s
FROM organizations o
WHERE o.id = %(organization_id)s
RETURNING id
