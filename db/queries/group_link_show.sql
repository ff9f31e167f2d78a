-- One group link as it stands, and what was last told of it. A held one is pending until infinity.
-- Parameters: id uuid, organization_id uuid (null = of whichever).
-- Rows: at most one (id uuid, organization_id uuid, enrolment_id, flow, phone, template_name, template_language,
--   status text, held boolean, attempts, max_attempts integer, available_at timestamptz (null when held),
--   provider_message_id, last_error text, created_at, updated_at timestamptz, told text).
SELECT q.id, q.organization_id, q.enrolment_id, q.flow, q.phone, q.template_name, q.template_language, q.status,
    q.available_at = 'infinity', q.attempts, q.max_attempts, nullif(q.available_at, 'infinity'),
    q.provider_message_id, q.last_error, q.created_at, q.updated_at,
    (
        SELECT t.outcome FROM rajada.trace t
        WHERE t.job_id = q.id AND t.at >= q.created_at - interval '1 day' AND t.outcome IS NOT NULL
        ORDER BY t.replay DESC, t.seq DESC, t.at DESC
        LIMIT 1
    )
FROM group_link_dispatch_queue q
WHERE q.id = %(id)s AND (%(organization_id)s::uuid IS NULL OR q.organization_id = %(organization_id)s)
