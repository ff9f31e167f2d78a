-- Whose a contact or a message is. Parameters: id (uuid).
-- Rows: organization_id, contact_id, conversation_id, message_id text.
SELECT c.organization_id::text, c.id::text, NULL::text, NULL::text FROM contacts c WHERE c.id = %(id)s
UNION ALL
SELECT m.organization_id::text, m.contact_id::text, m.conversation_id::text, m.id::text
FROM messages m
WHERE m.id = %(id)s
UNION ALL
(
    SELECT t.organization_id::text, t.contact_id::text, NULL, NULL
    FROM rajada.trace t
    WHERE t.contact_id = %(id)s AND t.organization_id IS NOT NULL
    LIMIT 1
)
