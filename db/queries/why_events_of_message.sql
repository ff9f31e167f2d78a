-- The events of a message. Parameters: id (text, a lower-case uuid), entity (the same, of the type of
--   event_log.entity_id). Rows: event_id text.
SELECT t.event_id::text
FROM rajada.trace t
WHERE t.message_id = (%(id)s::text)::uuid AND t.event_id IS NOT NULL
UNION
SELECT e.id::text
FROM messages m
JOIN event_log e ON e.organization_id = m.organization_id AND e.entity_kind = 'message'
WHERE m.id = (%(id)s::text)::uuid AND e.entity_id = %(entity)s
UNION
-- of those that have no outcome yet: few, and indexed
SELECT e.id::text
FROM event_log e
WHERE e.status IN ('pending', 'processing') AND lower(e.payload ->> 'inbound_message_id') = %(id)s::text
