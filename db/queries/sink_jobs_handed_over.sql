-- Hand jobs over to the CRM's own workers: insert their rows, pending and due. From then on a row is theirs:
-- whatever they made of it (claimed, retried, done, deleted) is never written over.
-- A job that the trace tells of was handed over before, so a row that they deleted stays deleted; a replay can
-- tell an old job anew, so for those any word about it counts. Call it before this batch's trace is written.
-- Not written: a job whose organization or contact is gone meanwhile, and one whose event already has a
-- row of another job (another system's; it keeps its row).
-- run_after: by this database's clock never in the future, and in the order of the decisions.
-- Parameters: rows json, one object a job, each job once. No rows.
INSERT INTO job_queue (
    id, organization_id, contact_id, kind, source_event_id, payload, status, priority, run_after,
    attempts, max_attempts, created_at, outcome_replay, outcome_seq
)
SELECT
    r.id, r.organization_id, r.contact_id, r.kind, r.source_event_id, r.payload::jsonb, 'pending', r.priority,
    least(now(), to_timestamp(r.run_after_ms / 1000.0)), 0, r.max_attempts,
    to_timestamp(r.created_at_ms / 1000.0), r.replay, r.seq
FROM json_to_recordset(%(rows)s::json) AS r (
    id uuid, organization_id uuid, contact_id uuid, kind text, source_event_id uuid, payload text,
    priority integer, run_after_ms bigint, max_attempts integer, created_at_ms bigint, replay bigint, seq bigint,
    at_ms bigint
)
LEFT JOIN contacts c ON c.id = r.contact_id
WHERE EXISTS (SELECT FROM organizations g WHERE g.id = r.organization_id)
  AND (r.contact_id IS NULL OR c.id IS NOT NULL)
  AND NOT EXISTS (
      SELECT FROM job_queue o
      WHERE (o.organization_id = r.organization_id) IS TRUE AND o.source_event_id = r.source_event_id AND o.id <> r.id
  )
  AND NOT EXISTS (
      SELECT FROM rajada.trace t
      WHERE t.job_id = r.id AND t.event_id IS NULL AND t.at = to_timestamp(r.at_ms / 1000.0)
        AND t.replay = r.replay AND t.seq = r.seq
  )
  AND CASE WHEN r.replay > 0 THEN NOT EXISTS (
      SELECT FROM rajada.trace t WHERE t.job_id = r.id AND t.event_id IS NULL
  ) ELSE true END
ON CONFLICT DO NOTHING
