-- Write down who ordered what; the same order again is the same row.
-- Parameters: id, action, organization_id, job_id (uuid or null), reason, ordered_by. No rows.
INSERT INTO rajada.orders (id, action, organization_id, job_id, reason, ordered_by)
VALUES (%(id)s, %(action)s, %(organization_id)s, %(job_id)s, %(reason)s, %(ordered_by)s)
ON CONFLICT (id) DO NOTHING
