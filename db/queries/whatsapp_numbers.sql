-- With which WhatsApp numbers organizations send; no secrets.
-- No parameters. Rows: organization_id uuid, phone_number_id text, set_by text, set_at timestamptz.
SELECT n.organization_id, n.phone_number_id, n.set_by, n.set_at
FROM rajada.whatsapp_numbers n
ORDER BY n.organization_id
