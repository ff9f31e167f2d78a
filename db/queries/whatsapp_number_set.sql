-- Set with which WhatsApp number an organization sends, if there is such an organization.
-- Parameters: organization_id uuid, phone_number_id, access_token, set_by text.
-- Rows: one (organization_id uuid), none without the organization.
INSERT INTO rajada.whatsapp_numbers AS n (organization_id, phone_number_id, access_token, set_by)
SELECT o.id, %(phone_number_id)s, %(access_token)s, %(set_by)s
FROM organizations o
WHERE o.id = %(organization_id)s
ON CONFLICT (organization_id) DO UPDATE
SET phone_number_id = excluded.phone_number_id, access_token = excluded.access_token,
    set_by = excluded.set_by, set_at = now()
RETURNING n.organization_id
