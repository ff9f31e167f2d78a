-- The group link of an enrolment, with all that its job was made of.
-- Parameters: organization_id uuid, enrolment_id text.
-- Rows: at most one: status text; then as in group_links_stuck.sql: id, organization_id, event_id text;
--   enrolment_id, flow, phone, student_name, group_link, template_name, template_language text;
--   attempts, max_attempts integer; created_ms, available_ms bigint; replay, seq bigint.
SELECT q.status, q.id::text, q.organization_id::text,
    coalesce(
        (
            SELECT e.id FROM event_log e
            WHERE e.organization_id = q.organization_id AND e.entity_kind = 'group_link' AND e.entity_id = q.id
            ORDER BY e.created_at DESC
            LIMIT 1
        ),
        q.id
    )::text,
    q.enrolment_id, q.flow, q.phone, q.student_name, q.group_link, q.template_name, q.template_language,
    q.attempts, q.max_attempts,
    (extract(epoch FROM q.created_at) * 1000)::bigint,
    (extract(epoch FROM coalesce(nullif(q.available_at, 'infinity'), q.updated_at)) * 1000)::bigint,
    coalesce(q.outcome_replay, 0), coalesce(q.outcome_seq, 0)
FROM group_link_dispatch_queue q
WHERE q.organization_id = %(organization_id)s AND q.enrolment_id = %(enrolment_id)s
