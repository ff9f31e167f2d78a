-- The group links of a phone, where the CRM has such: they name no contact.
-- Parameters: organizations (uuid[]), phones (text[]: digits alone, same length).
-- Rows: job_id text, event_ids text[], is_open boolean (it is still to be sent).
SELECT
    q.id::text,
    ARRAY(
        SELECT e.id::text FROM event_log e
        WHERE e.organization_id = q.organization_id AND e.entity_kind = 'group_link' AND e.entity_id = q.id
    ),
    q.status IN ('pending', 'processing')
FROM unnest(%(organizations)s::uuid[], %(phones)s::text[]) AS w (organization_id, phone)
JOIN group_link_dispatch_queue q
  ON q.organization_id = w.organization_id AND regexp_replace(q.phone, '\D', '', 'g') = w.phone
