-- Phones of contacts.
-- Parameters: ids uuid[]. Rows: id text, organization_id text, phone_number text.
SELECT c.id::text, c.organization_id::text, c.phone_number
FROM contacts c
WHERE c.id = ANY (%(ids)s::uuid[]) AND c.phone_number IS NOT NULL
