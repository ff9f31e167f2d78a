-- Note how far a run is. Parameters: replay (bigint), progress (json text), finished (boolean). No rows.
UPDATE rajada.replays
SET progress = %(progress)s::jsonb,
    finished_at = CASE WHEN %(finished)s THEN now() ELSE finished_at END
WHERE replay = %(replay)s
