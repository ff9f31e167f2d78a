-- The group link of an enrolment.
-- Parameters: organization_id uuid, enrolment_id text. Rows: at most one (id uuid, available_at timestamptz, null when held).
SELECT q.id, nullif(q.available_at, 'infinity')
FROM group_link_dispatch_queue q
WHERE q.organization_id = %(organization_id)s AND q.enrolment_id = %(enrolment_id)s
