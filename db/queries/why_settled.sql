-- What people did with the dead letters of events and jobs. Parameters: ids (uuid[]).
-- Rows: at timestamptz, how text (requeued, parked, dropped, erased), about text, replay bigint (the run's number;
--   0 = none), by_whom text, reason text, letter text (its place); in order.
-- A letter that was dropped and requeued later is both: `dropped` keeps what `closed_letters` has replaced.
SELECT
    c.closed_at AS at, c.how, c.about::text AS about, c.replay, c.closed_by AS by_whom,
    r.selection ->> 'because' AS reason, c.topic || '/' || c.partition || '/' || c."offset" AS letter
FROM rajada.closed_letters c
LEFT JOIN rajada.replays r ON r.replay = c.replay AND r.command = 'requeue'
WHERE c.about = ANY (%(ids)s::uuid[]) AND c.how <> 'dropped'
UNION ALL
SELECT
    d.at, 'dropped', d.id::text, 0::bigint, d.dropped_by, d.reason, d.topic || '/' || d.partition || '/' || d."offset"
FROM rajada.dropped d
WHERE d.id = ANY (%(ids)s::uuid[])
ORDER BY at, letter
