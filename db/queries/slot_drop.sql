-- Cuts off whoever reads a replication slot and drops it, waiting up to 10 s for the reader to end.
-- Parameters: slot (text).
-- Rows: one, of no meaning.
SELECT pg_drop_replication_slot(slot_name)
FROM (
    SELECT slot_name, active_pid IS NULL OR pg_terminate_backend(active_pid, 10000) AS is_free
    FROM pg_replication_slots
    WHERE slot_name = %(slot)s
    OFFSET 0  -- keeps the planner from dropping before the reader has ended
) slots
WHERE is_free;
