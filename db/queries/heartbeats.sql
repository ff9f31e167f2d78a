-- The slots that connectors of ours read, and for how long each connector has given no sign of life.
-- No parameters. Rows: (slot text, beats bigint, silent_s double precision, every_s double precision,
-- has_slot boolean), in order.
SELECT
    h.slot,
    h.beats,
    extract(epoch FROM clock_timestamp() - h.beat_at)::float8,
    h.every_ms / 1000.0::float8,
    EXISTS (SELECT FROM pg_replication_slots s WHERE s.slot_name = h.slot)
FROM rajada.heartbeats h
ORDER BY h.slot;
