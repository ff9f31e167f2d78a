-- WhatsApp instances that are on their way or have failed, those longest in their state first.
-- Parameters: organization_id uuid (null = of all), most int. Rows: id, organization_id, state text,
-- state_since timestamptz, stuck boolean (for longer than it may take), locked boolean (somebody looks at it).
SELECT
    i.id::text, i.organization_id::text, i.state, i.state_since,
    coalesce(i.state_since <= clock_timestamp() - s.stuck_after, false),
    coalesce(i.locked_until > clock_timestamp(), false)
FROM connect.whatsapp_instances i
LEFT JOIN connect.whatsapp_states s ON s.state = i.state
WHERE i.state NOT IN ('connected', 'archived')
  AND (%(organization_id)s::uuid IS NULL OR i.organization_id = %(organization_id)s)
ORDER BY i.state_since, i.id
LIMIT %(most)s
