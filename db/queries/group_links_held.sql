-- Group links that are held, with why, as the trace tells.
-- Parameters: organization_id uuid (null = of all), after uuid (the last of the page before), page integer.
-- Rows, by id: id uuid, organization_id uuid, phone text, told text (`held:<reason>`, or null).
SELECT q.id, q.organization_id, q.phone, t.outcome
FROM group_link_dispatch_queue q
LEFT JOIN LATERAL (
    SELECT o.outcome FROM rajada.trace o
    WHERE o.job_id = q.id AND o.status = 'held'
    ORDER BY o.replay DESC, o.seq DESC, o.at DESC
    LIMIT 1
) t ON true
WHERE q.status = 'pending' AND q.available_at = 'infinity'
  AND (%(organization_id)s::uuid IS NULL OR q.organization_id = %(organization_id)s)
  AND q.id > %(after)s
ORDER BY q.id
LIMIT %(page)s
