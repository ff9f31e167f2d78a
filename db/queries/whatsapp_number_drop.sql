-- Forget with which WhatsApp number an organization sends.
-- Parameters: organization_id uuid. Rows: one (organization_id uuid), none when there was none.
DELETE FROM rajada.whatsapp_numbers n WHERE n.organization_id = %(organization_id)s RETURNING n.organization_id
