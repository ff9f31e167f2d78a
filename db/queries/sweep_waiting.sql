-- How many events the sweep would publish again, by organization and age; same conditions as sweep_claim.
-- Parameters: event_types (text[]), consumer (text), reap_ms (integer), since (timestamptz; null = younger
--   than the installation), at_once (boolean: whatever backoff is left).
-- Rows: organization_id uuid, event_type text, hour, day, week, older bigint (created within the last hour,
--   day, week, or before), oldest timestamptz, swept bigint (published again before); most events first.
SELECT
    e.organization_id,
    e.event_type::text,
    count(*) FILTER (WHERE e.created_at > now() - interval '1 hour') AS hour,
    count(*) FILTER (
        WHERE e.created_at <= now() - interval '1 hour' AND e.created_at > now() - interval '1 day'
    ) AS day,
    count(*) FILTER (
        WHERE e.created_at <= now() - interval '1 day' AND e.created_at > now() - interval '7 days'
    ) AS week,
    count(*) FILTER (WHERE e.created_at <= now() - interval '7 days') AS older,
    min(e.created_at) AS oldest,
    count(s.event_id) AS swept
FROM event_log e
LEFT JOIN rajada.swept s ON s.event_id = e.id
WHERE e.event_type::text = ANY (%(event_types)s)
  AND e.status IN ('pending', 'processing')
  AND e.organization_id IS NOT NULL
  AND e.created_at >= coalesce(
      %(since)s::timestamptz, (SELECT m.installed_at FROM rajada.meta m), 'infinity'
  )
  AND e.created_at <= now() - %(reap_ms)s * interval '1 millisecond'
  AND CASE e.status
      WHEN 'pending' THEN coalesce(e.next_attempt_at <= now(), true)
      ELSE %(consumer)s = ANY (e.consumed_by)
          AND coalesce(e.updated_at, e.created_at) <= now() - %(reap_ms)s * interval '1 millisecond'
  END
  AND (s.event_id IS NULL OR s.next_sweep_at <= now() OR %(at_once)s)
GROUP BY e.organization_id, e.event_type::text
ORDER BY count(*) DESC, e.organization_id
