-- With which WhatsApp number an organization sends.
-- Parameters: organization_id uuid. Rows: at most one (phone_number_id text, access_token text: a secret).
SELECT n.phone_number_id, n.access_token FROM rajada.whatsapp_numbers n WHERE n.organization_id = %(organization_id)s
