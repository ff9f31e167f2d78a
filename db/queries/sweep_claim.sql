-- Note the next page of events that are to be published again, and give their rows. Only while we hold the
-- lease; rows that somebody is writing are passed over; what was noted meanwhile is left out.
-- Due: pending past next_attempt_at, or left `processing` by an older system under our consumer name.
-- Parameters: event_types (text[]), consumer (text), reap_ms (integer), since (timestamptz; null = younger
--   than the installation), after_created_at (timestamptz) and after_id (uuid): the last of the page before,
--   at_once (boolean: whatever backoff is left), begun_at (timestamptz: start of this sweep, database time),
--   first_s and longest_s (integer: backoff), page (integer), lease and holder (text).
-- Rows: whole rows of event_log, in the order of the log.
WITH due AS MATERIALIZED (
    SELECT e.id, e.organization_id
    FROM event_log e
    LEFT JOIN rajada.swept s ON s.event_id = e.id
    WHERE e.event_type::text = ANY (%(event_types)s)
      AND e.status IN ('pending', 'processing')
      AND e.organization_id IS NOT NULL
      AND e.created_at >= coalesce(
          %(since)s::timestamptz, (SELECT m.installed_at FROM rajada.meta m), 'infinity'
      )
      AND e.created_at <= now() - %(reap_ms)s * interval '1 millisecond'
      AND (e.created_at, e.id) > (%(after_created_at)s, %(after_id)s)
      AND CASE e.status
          WHEN 'pending' THEN coalesce(e.next_attempt_at <= now(), true)
          ELSE %(consumer)s = ANY (e.consumed_by)
              AND coalesce(e.updated_at, e.created_at) <= now() - %(reap_ms)s * interval '1 millisecond'
      END
      AND (s.event_id IS NULL OR s.next_sweep_at <= now()
           OR (%(at_once)s AND s.last_swept_at < %(begun_at)s))
    ORDER BY e.created_at, e.id
    LIMIT %(page)s
    FOR NO KEY UPDATE OF e SKIP LOCKED
),
noted AS (
    INSERT INTO rajada.swept AS s (event_id, organization_id, next_sweep_at)
    SELECT d.id, d.organization_id, now() + make_interval(secs => %(first_s)s)
    FROM due d
    WHERE EXISTS (
        SELECT FROM rajada.leases l
        WHERE l.name = %(lease)s AND l.holder = %(holder)s AND l.held_until > clock_timestamp()
    )
    ON CONFLICT (event_id) DO UPDATE
    SET sweeps = s.sweeps + 1,
        last_swept_at = now(),
        next_sweep_at = now() + make_interval(
            secs => least(%(first_s)s * power(2, least(s.sweeps, 30)), %(longest_s)s)
        )
    WHERE s.next_sweep_at <= now() OR (%(at_once)s AND s.last_swept_at < %(begun_at)s)
    RETURNING s.event_id
)
SELECT e.*
FROM event_log e
JOIN noted n ON n.event_id = e.id
ORDER BY e.created_at, e.id
