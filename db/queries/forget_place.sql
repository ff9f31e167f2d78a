-- Whose a contact is, by its row, else by the trace. Parameters: id (uuid).
-- Rows: organization_id, phone text; one an organization.
SELECT c.organization_id::text, c.phone_number::text FROM contacts c WHERE c.id = %(id)s
UNION ALL
SELECT DISTINCT t.organization_id::text, NULL
FROM rajada.trace t
WHERE t.contact_id = %(id)s AND t.organization_id IS NOT NULL
  AND NOT EXISTS (SELECT FROM contacts c WHERE c.id = %(id)s)
