-- Undo what sweep_claim noted: these could not be published, so their backoff does not begin.
-- Parameters: events (uuid[]). No rows.
UPDATE rajada.swept
SET sweeps = sweeps - 1, next_sweep_at = now()
WHERE event_id = ANY (%(events)s::uuid[])
