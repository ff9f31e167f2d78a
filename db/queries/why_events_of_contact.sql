-- The newest events of a contact. Parameters: id (text, a lower-case uuid), most (integer). Rows: event_id text.
(
    SELECT t.event_id::text
    FROM rajada.trace t
    WHERE t.contact_id = (%(id)s::text)::uuid AND t.event_id IS NOT NULL
    GROUP BY t.event_id
    ORDER BY max(t.at) DESC
    LIMIT %(most)s
)
UNION
SELECT * FROM (
    SELECT e.id::text
    FROM event_log e
    WHERE e.status IN ('pending', 'processing') AND lower(e.payload ->> 'contact_id') = %(id)s::text
    ORDER BY e.created_at DESC
    LIMIT %(most)s
) AS waiting
