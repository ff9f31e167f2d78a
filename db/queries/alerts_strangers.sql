-- Events that died by another system's hand, or before the ledger of troubles was, and stand in it not yet.
-- Parameters: event_types text[]. Rows: id text, organization_id text, event_type text, outcome text or null,
-- attempts int, last_error text or null; the oldest thousand of the last day.
SELECT e.id::text, e.organization_id::text, e.event_type::text, e.outcome, e.attempts, e.last_error
FROM event_log e
WHERE e.status = 'dead'
  AND e.outcome_seq IS NULL
  AND e.updated_at > now() - interval '1 day'
  AND e.event_type::text = ANY (%(event_types)s::text[])
  AND NOT EXISTS (
      SELECT FROM rajada.troubles t WHERE t.about = 'event' AND t.id = e.id::text AND t.kind = 'event_dead'
  )
  AND NOT EXISTS (SELECT FROM rajada.dropped d WHERE d.id = e.id AND d.kind = 'event')
ORDER BY e.updated_at
LIMIT 1000
