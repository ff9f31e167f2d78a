-- What the sweep published again. Parameters: ids (uuid[]).
-- Rows: event_id text, sweeps int, first_swept_at, last_swept_at, next_sweep_at timestamptz.
SELECT s.event_id::text, s.sweeps, s.first_swept_at, s.last_swept_at, s.next_sweep_at
FROM rajada.swept s
WHERE s.event_id = ANY (%(ids)s::uuid[]) AND s.sweeps > 0
