-- Compare-and-set of the offsets; first statement of the sink's transaction, so that of two sinks the
-- second waits here and then finds another value than it expected.
-- Parameters: topic_id text, partitions int[], expected bigint[], next bigint[] (same length).
-- Rows: partition int, one for each that was where it was expected to be.
WITH move AS (
    SELECT * FROM unnest(%(partitions)s::integer[], %(expected)s::bigint[], %(next)s::bigint[])
        AS m (partition, expected, next)
),
held AS (
    -- locked in one order by everybody: no deadlock between two sinks
    SELECT o.partition
    FROM rajada.sink_offsets o
    WHERE o.topic_id = %(topic_id)s AND o.partition = ANY (%(partitions)s::integer[])
    ORDER BY o.partition
    FOR UPDATE
)
UPDATE rajada.sink_offsets o
SET next_offset = m.next, updated_at = now()
FROM move m
WHERE o.topic_id = %(topic_id)s
  AND o.partition = m.partition
  AND o.next_offset = m.expected
  AND o.partition IN (SELECT h.partition FROM held h)
RETURNING o.partition
