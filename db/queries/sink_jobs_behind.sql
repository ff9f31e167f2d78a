-- Show as running what had to stay behind another job of its contact when it started, now that none runs there.
-- Of several (which is out of date, since one job of a contact runs at a time) the youngest.
-- Parameters: contacts uuid[]. No rows.
UPDATE job_queue q
SET status = 'running'
FROM (
    SELECT DISTINCT ON (w.contact_id) w.id
    FROM job_queue w
    WHERE w.contact_id = ANY (%(contacts)s::uuid[])
      AND w.status = 'pending'
      AND w.locked_by = 'agent-engine'
      AND w.outcome_seq IS NOT NULL
      AND NOT EXISTS (
          SELECT FROM job_queue o WHERE o.contact_id = w.contact_id AND o.status = 'running'
      )
    ORDER BY w.contact_id, w.locked_at DESC, w.id DESC
) n
WHERE q.id = n.id
