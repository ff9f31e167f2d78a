-- Delete what is older than 90 days, ten thousand rows of each table at most: runs, requests, moves, and
-- notifications that were resolved. No parameters. Rows: one, (forgotten bigint).
WITH firings AS (
    DELETE FROM connect.firings f WHERE f.id IN (
        SELECT o.id FROM connect.firings o
        WHERE o.began_at < clock_timestamp() - interval '90 days' AND o.state <> 'running' LIMIT 10000
    ) RETURNING 1
),
requests AS (
    DELETE FROM connect.requests r WHERE r.id IN (
        SELECT o.id FROM connect.requests o
        WHERE o.asked_at < clock_timestamp() - interval '90 days' AND o.firing IS NOT NULL LIMIT 10000
    ) RETURNING 1
),
moves AS (
    DELETE FROM connect.whatsapp_moves m WHERE (m.instance_id, m.token) IN (
        SELECT o.instance_id, o.token FROM connect.whatsapp_moves o
        WHERE o.at < clock_timestamp() - interval '90 days' LIMIT 10000
    ) RETURNING 1
),
notifications AS (
    DELETE FROM connect.system_notifications n WHERE n.id IN (
        SELECT o.id FROM connect.system_notifications o
        WHERE o.resolved_at < clock_timestamp() - interval '90 days' LIMIT 10000
    ) RETURNING 1
)
SELECT (SELECT count(*) FROM firings) + (SELECT count(*) FROM requests) + (SELECT count(*) FROM moves)
    + (SELECT count(*) FROM notifications)
