-- Whose the job of a group link is. Parameters: id (uuid).
-- Rows: organization_id, phone, status, kind text; at most one.
SELECT g.organization_id::text, g.phone, g.status::text, 'group_link_template'
FROM group_link_dispatch_queue g
WHERE g.id = %(id)s
