-- Note a new token of the live page, if its organization is there (or it is of all of them).
-- Parameters: id, name, role text, sees_phones boolean, organization_id uuid or null, secret_sha256 bytea,
-- made_by text. Rows: one (id text), none without the organization.
INSERT INTO rajada.page_tokens (id, name, role, sees_phones, organization_id, secret_sha256, made_by)
SELECT %(id)s, %(name)s, %(role)s, %(sees_phones)s, %(organization_id)s, %(secret_sha256)s, %(made_by)s
WHERE %(organization_id)s::uuid IS NULL
   OR EXISTS (SELECT FROM organizations o WHERE o.id = %(organization_id)s::uuid)
RETURNING id
