-- Debezium's connectors read the log from the WAL, and give signs of life. Made only when it is asked for by name.
-- attributes: REPLICATION
GRANT SELECT ON event_log TO {role};
GRANT USAGE ON SCHEMA rajada TO {role};
GRANT SELECT (slot, beats), UPDATE (beats, beat_at) ON rajada.heartbeats TO {role};
