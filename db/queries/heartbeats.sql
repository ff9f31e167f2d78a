-- The slots that connectors of ours read, and for how long each has given no sign of life.
-- No parameters. Rows: (slot text, beats bigint, silent_s double precision, every_s double precision), in order.
SELECT slot, beats, extract(epoch FROM clock_timestamp() - beat_at)::float8, every_ms / 1000.0::float8
FROM rajada.heartbeats
ORDER BY slot;
