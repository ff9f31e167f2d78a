-- Put a group link into the queue together with the event that asks for it (spec/group_link.md): both or none.
-- An enrolment that is in the queue already adds nothing. The clock is the database's.
-- Parameters: job_id, event_id, organization_id uuid; enrolment_id, flow, student_name, phone, group_link,
--   template_name, template_language text; delay_ms bigint; max_attempts integer.
-- Rows: one (id uuid, available_at timestamptz) if it was put in, else none.
WITH queued AS (
    INSERT INTO group_link_dispatch_queue (
        id, organization_id, enrolment_id, flow, student_name, phone, group_link, template_name,
        template_language, max_attempts, delay_ms, available_at
    )
    VALUES (
        %(job_id)s, %(organization_id)s, %(enrolment_id)s, %(flow)s, %(student_name)s, %(phone)s,
        %(group_link)s, %(template_name)s, %(template_language)s, %(max_attempts)s, %(delay_ms)s::bigint,
        now() + %(delay_ms)s::bigint * interval '1 millisecond'
    )
    ON CONFLICT DO NOTHING
    RETURNING id, organization_id, enrolment_id, flow, student_name, phone, group_link, template_name,
        template_language, max_attempts, available_at
),
asked AS (
    INSERT INTO event_log (id, organization_id, event_type, entity_kind, entity_id, payload)
    SELECT %(event_id)s, q.organization_id, 'group_link.dispatch_requested', 'group_link', q.id,
        jsonb_build_object(
            'job_id', q.id,
            'enrolment_id', q.enrolment_id,
            'flow', q.flow,
            'phone', q.phone,
            'student_name', q.student_name,
            'group_link', q.group_link,
            'template_name', q.template_name,
            'template_language', q.template_language,
            'max_attempts', q.max_attempts,
            'available_at_ms', ceil(extract(epoch FROM q.available_at) * 1000)::bigint
        )
    FROM queued q
)
SELECT q.id, q.available_at FROM queued q
