-- Logical slots of this database that could publish the event log.
-- Parameters: slot (text): ours. Rows: (slot text, active bool), the others' only, in order.
SELECT slot_name::text, active
FROM pg_replication_slots
WHERE database = current_database() AND plugin = 'pgoutput' AND slot_name <> %(slot)s
ORDER BY slot_name;
