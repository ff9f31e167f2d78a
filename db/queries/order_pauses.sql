-- What is paused, by the last order for everybody (organization_id null) and for each organization.
-- No parameters. Rows: organization_id text or null, reason, ordered_by text, at timestamptz.
SELECT newest.organization_id::text, newest.reason, newest.ordered_by, newest.at
FROM (
    SELECT DISTINCT ON (o.organization_id) o.organization_id, o.action, o.reason, o.ordered_by, o.at
    FROM rajada.orders o
    WHERE o.action IN ('pause', 'resume')
    ORDER BY o.organization_id, o.at DESC
) AS newest
WHERE newest.action = 'pause'
ORDER BY newest.at
