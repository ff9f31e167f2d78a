-- Set with which WhatsApp number an organization sends.
-- Parameters: organization_id uuid, phone_number_id, access_token, set_by text. No rows.
INSERT INTO rajada.whatsapp_numbers AS n (organization_id, phone_number_id, access_token, set_by)
VALUES (%(organization_id)s, %(phone_number_id)s, %(access_token)s, %(set_by)s)
ON CONFLICT (organization_id) DO UPDATE
SET phone_number_id = excluded.phone_number_id, access_token = excluded.access_token,
    set_by = excluded.set_by, set_at = now()
