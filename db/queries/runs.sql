-- Runs of a command: the one that is asked for, or all that are unfinished, oldest first.
-- Parameters: command (text), replay (bigint or null).
-- Rows: replay bigint, selection, progress text (JSON), started_by text, started_at, finished_at timestamptz.
SELECT r.replay, r.selection::text, r.progress::text, r.started_by, r.started_at, r.finished_at
FROM rajada.replays r
WHERE r.command = %(command)s
  AND CASE WHEN %(replay)s::bigint IS NULL THEN r.finished_at IS NULL ELSE r.replay = %(replay)s::bigint END
ORDER BY r.replay
