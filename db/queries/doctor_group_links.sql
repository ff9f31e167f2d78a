-- Who may ask for group links, and what there is to send them with.
-- No parameters. Rows: one (tokens bigint: not revoked; without_number bigint: organizations that have one and
-- no WhatsApp number of their own).
SELECT count(*), count(DISTINCT t.organization_id) FILTER (WHERE n.organization_id IS NULL)
FROM rajada.tokens t
LEFT JOIN rajada.whatsapp_numbers n ON n.organization_id = t.organization_id
WHERE t.revoked_at IS NULL
