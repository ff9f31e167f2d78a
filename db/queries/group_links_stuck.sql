-- Group links whose row has said for too long that they are being sent, with all that their job was made of.
-- Parameters: stuck_s double precision, page integer.
-- Rows, oldest first: id, organization_id, event_id (its event's, or its own where that is gone) text;
--   enrolment_id, flow, phone, student_name, group_link, template_name, template_language text;
--   attempts, max_attempts integer; created_ms, available_ms bigint; replay, seq bigint.
SELECT q.id::text, q.organization_id::text,
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
WHERE q.status = 'processing' AND q.updated_at < now() - make_interval(secs => %(stuck_s)s)
ORDER BY q.updated_at
LIMIT %(page)s
