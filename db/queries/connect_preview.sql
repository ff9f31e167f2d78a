-- What a run would do now, by age alone; nothing is changed or locked.
-- No parameters. Rows: (what text, name text, count bigint): `move` by state, `open` and `resolve` by kind.
SELECT 'move', i.state, count(*)
FROM connect.whatsapp_instances i
JOIN connect.whatsapp_states s ON s.state = i.state
WHERE i.state IN ('provisioning', 'deprovisioning')
  AND i.state_since <= clock_timestamp() - s.stuck_after
  AND (i.locked_until IS NULL OR i.locked_until <= clock_timestamp())
GROUP BY i.state
UNION ALL
SELECT 'leave', u.state, sum(u.instances)::bigint
FROM connect.whatsapp_unknown_states u
GROUP BY u.state
UNION ALL
SELECT 'open', f.kind, count(*)
FROM connect.notification_facts f
WHERE NOT EXISTS (
    SELECT FROM connect.system_notifications n WHERE n.about = f.about AND n.resolved_at IS NULL
)
GROUP BY f.kind
UNION ALL
SELECT 'resolve', n.kind, count(*)
FROM connect.system_notifications n
WHERE n.resolved_at IS NULL
  AND NOT EXISTS (SELECT FROM connect.notification_facts f WHERE f.about = n.about)
GROUP BY n.kind
ORDER BY 1, 2
