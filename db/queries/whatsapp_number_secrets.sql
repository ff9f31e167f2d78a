-- The access tokens of WhatsApp numbers as they are stored: sealed, or in plain text from before that.
-- No parameters. Rows: organization_id uuid, phone_number_id text, access_token text (a secret if not sealed).
SELECT n.organization_id, n.phone_number_id, n.access_token FROM rajada.whatsapp_numbers n ORDER BY n.organization_id
