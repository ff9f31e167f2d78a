-- Begin a run: its number is the greater of Unix milliseconds now and the last one + 1 (spec/dispatch.md,
-- "Replays"), stored before the first record is sent. Two that begin at once: one fails and tries again.
-- Parameters: command (text), selection (json text), progress (json text), started_by (text).
-- Rows: replay bigint.
INSERT INTO rajada.replays (replay, command, selection, progress, started_by)
SELECT
    greatest(floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint, coalesce(max(r.replay), 0) + 1),
    %(command)s, %(selection)s::jsonb, %(progress)s::jsonb, %(started_by)s
FROM rajada.replays r
RETURNING replay
